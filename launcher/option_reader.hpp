// Reads the options at the front of a command line. They end at the first word that is not an option, or after "--".
//
// Each group of options adds its own, and says where the values go. Values are kept as written: the group itself finds
// out what they mean. CLI11 does the reading. It takes long to compile, so option_reader.cpp alone includes it.
#pragma once

#include "base/status.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpurun::launcher {

class OptionReader {
  public:
    OptionReader();
    ~OptionReader();
    OptionReader(const OptionReader&) = delete;
    OptionReader& operator=(const OptionReader&) = delete;

    // `names` are as CLI11 has them: "--ranks", "-n,--ranks". What an option is read into must live until read() has
    // returned.
    void add_flag(const char* names, bool& given);
    // It may have a value, behind "=". Without one it means what stands in the braces: "--membind{bind}".
    void add_flag(const char* names, std::optional<std::string>& value);
    void add_option(const char* names, std::optional<std::string>& value);
    // One that may be given more than once.
    void add_option(const char* names, std::vector<std::string>& values);

    // Takes the options off the front of `words`. What stays starts with PROGRAM.
    base::Result<void> read(std::vector<std::string>& words);

  private:
    base::Result<void> check_values(const std::vector<std::string>& words) const;
    base::Error unknown_option(const std::string& word) const;

    std::unique_ptr<CLI::App> app_;
};

} // namespace gpurun::launcher
