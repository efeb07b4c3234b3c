// The queue by keys: the oldest of a key is found, through growth and removals, and without passing many others.
#include "comm/hashed_queue.hpp"
#include "support/unit.hpp"

#include <deque>
#include <set>

using namespace gpurun;

namespace {

struct ByKey;
struct Item : comm::Hashed<Item, ByKey> {
    explicit Item(int number_) : number(number_) {}
    int number;
};
using Queue = comm::HashedQueue<Item, ByKey>;

const auto kAny = [](const Item&) { return true; };

} // namespace

TEST_SUITE_BEGIN("hashed queue");

TEST_CASE("the oldest element of a key is found, then the next one") {
    Queue queue;
    Item first(1);
    Item other(2);
    Item second(3);
    queue.push_back(first, 70);
    queue.push_back(other, 71);
    queue.push_back(second, 70);
    CHECK(queue.find(70, kAny) == &first);
    CHECK(queue.find(70, [](const Item& each) { return each.number > 1; }) == &second);
    CHECK(queue.find(72, kAny) == nullptr);
    queue.remove(first);
    CHECK_FALSE(Queue::has(first));
    CHECK(queue.find(70, kAny) == &second);
    CHECK(queue.find(71, kAny) == &other);
    queue.remove(second);
    queue.remove(other);
    CHECK(queue.empty());
    CHECK(queue.find(71, kAny) == nullptr);
}

TEST_CASE("the order within a key outlasts growth") {
    constexpr int kItems = 10'000;
    constexpr uint64_t kKeys = 7;
    Queue queue;
    std::deque<Item> items;
    for (int i = 0; i < kItems; ++i)
        queue.push_back(items.emplace_back(i), static_cast<uint64_t>(i) % kKeys);
    CHECK(queue.size() == kItems);
    for (int i = 0; i < kItems; ++i) {
        Item* const oldest = queue.find(static_cast<uint64_t>(i) % kKeys, kAny);
        REQUIRE(oldest != nullptr);
        REQUIRE(oldest->number == i);
        queue.remove(*oldest);
    }
    CHECK(queue.empty());
}

TEST_CASE("each element is visited once, and a visitor may remove what it is given") {
    constexpr int kItems = 500;
    Queue queue;
    std::deque<Item> items;
    for (int i = 0; i < kItems; ++i)
        queue.push_back(items.emplace_back(i), static_cast<uint64_t>(i) * 13);
    std::set<int> seen;
    queue.for_each([&](Item& each) {
        CHECK(seen.insert(each.number).second);
        queue.remove(each);
    });
    CHECK(seen.size() == kItems);
    CHECK(queue.empty());
}

TEST_SUITE_END();
