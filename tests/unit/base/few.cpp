#include "base/few.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using gpurun::base::Few;

namespace {

struct Element {
    int number;
    uint64_t twice;
};

Few<Element, 4> first(int count) {
    Few<Element, 4> elements;
    for (int i = 0; i < count; ++i)
        elements.push_back({i, 2 * static_cast<uint64_t>(i)});
    return elements;
}

} // namespace

TEST_SUITE_BEGIN("few");

TEST_CASE("elements are those that were added, whether they are few or many") {
    for (const int count : {0, 1, 3, 4, 5, 6, 100}) {
        const Few<Element, 4> made = first(count);
        Few<Element, 4> elements = first(count);
        Few<Element, 4> moved(std::move(elements));
        for (const Few<Element, 4>* each : {&made, static_cast<const Few<Element, 4>*>(&moved)}) {
            CHECK(each->size() == static_cast<size_t>(count));
            CHECK(each->empty() == (count == 0));
            int next = 0;
            for (const Element& element : *each) {
                CHECK(element.number == next);
                CHECK(element.twice == 2 * static_cast<uint64_t>(next));
                ++next;
            }
            CHECK(next == count);
        }
        if (count != 0)
            CHECK(moved.back().number == count - 1);
    }
}

TEST_CASE("a list of a given size has elements as new") {
    for (const size_t size : {size_t{0}, size_t{4}, size_t{5}}) {
        Few<Element, 4> elements(size);
        CHECK(elements.size() == size);
        for (size_t i = 0; i < size; ++i) {
            CHECK(elements[i].number == 0);
            elements[i].number = static_cast<int>(i);
        }
        elements.push_back({7, 0});
        CHECK(elements.size() == size + 1);
        CHECK(elements[size].number == 7);
        CHECK((size == 0 || elements[size - 1].number == static_cast<int>(size) - 1));
    }
}

TEST_SUITE_END();
