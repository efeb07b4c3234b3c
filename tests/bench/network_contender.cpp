// A network's turn: a ping-pong, or a window of messages and an answer, in the host's order.

#include "network.hpp"

namespace gpurun::bench {

namespace {

class NetworkContender final : public Contender {
  public:
    NetworkContender(const Pair& pair, std::unique_ptr<Network> network) : pair_(pair), network_(std::move(network)) {}

    std::string how() const override { return network_->how(); }
    std::string why_not() const override { return network_->why_not(); }

    void turn(const Task& task, int samples, Samples& into) override {
        pair_.meet();
        for (int i = 0; i < samples; ++i) {
            const double start = gpurun_wtime();
            int messages = 1;
            if (task.test == Test::kLatency) {
                for (int round = 0; round < task.batch; ++round)
                    bounce(task.bytes, 1, task.bytes);
                messages = 2 * task.batch;
            } else {
                bounce(task.bytes, task.window, kAnswerBytes);
            }
            if (pair_.leads())
                into[0].push_back((gpurun_wtime() - start) * 1e6 / messages);
        }
        network_->drain();
        pair_.meet();
    }

  private:
    void bounce(size_t bytes, int count, size_t back) {
        if (pair_.leads())
            network_->send(bytes, count);
        else
            network_->receive(bytes, count);
        if (pair_.leads())
            network_->receive(back, 1);
        else
            network_->send(back, 1);
    }

    Pair pair_;
    std::unique_ptr<Network> network_;
};

} // namespace

std::unique_ptr<Contender> make_network(const Ground& ground, Reference reference) {
    auto network = reference == Reference::kTcp ? make_tcp(ground.pair, ground.arena_bytes)
                                                : make_fabric(ground.pair, ground.arena_bytes);
    return std::make_unique<NetworkContender>(ground.pair, std::move(network));
}

} // namespace gpurun::bench
