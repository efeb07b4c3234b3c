// Where processes of one user find a job: a socket with the job's name, in the user's private runtime folder
// ($XDG_RUNTIME_DIR/gpurun, else gpurun-UID in /tmp). Jobs that gpurun did not start have the name that their ranks
// give; those that gpurun started, one that no other job has.
//
// Whoever removes a socket there, or makes one under a name that others may take, holds the folder's lock. A socket
// appears under its name once it listens. One that nobody listens on any more is what a killed process has left: the
// next one to come removes it. The folder goes with its last socket.
#pragma once

#include "base/status.hpp"
#include "platform/message_socket.hpp"
#include "platform/unique_fd.hpp"

#include <string>
#include <vector>

namespace gpurun::platform {

constexpr int kMostFolderTries = 16; // of a folder that others remove at the same time

// kSetting if it cannot be the name of a file there.
base::Result<void> check_meeting_name(const std::string& name);

class MeetingPlace {
  public:
    // Makes the folder if needed, and locks it until this object goes. kSetting if others could write to it.
    static base::Result<MeetingPlace> lock();
    // The folder that `socket` is in; kSystem if it is not there any more.
    static base::Result<MeetingPlace> lock_of(const std::string& socket);

    MeetingPlace(MeetingPlace&&) = default;
    MeetingPlace& operator=(MeetingPlace&&) = delete;

    std::string path_of(const std::string& name) const { return folder_ + "/" + name; }
    // An invalid socket if nobody listens there. kSystem if it belongs to another user.
    base::Result<MessageSocket> connect(const std::string& path) const;
    // Takes the place of a socket that nobody listens on.
    base::Result<UniqueFd> listen(const std::string& path) const;
    void remove(const std::string& path) const;

  private:
    MeetingPlace(std::string folder, UniqueFd lock) : folder_(std::move(folder)), lock_(std::move(lock)) {}
    friend class OwnSocket;
    friend void close_meeting_place();
    friend bool sweep_now(const std::string& socket);
    static base::Result<MeetingPlace> lock_folder(const std::string& folder, bool make, int tries);

    std::string folder_;
    UniqueFd lock_;
};

// Removes `socket` if nobody listens on it. The second one leaves it there if the folder is locked; false: nothing was
// removed. The third one waits until who listened there and was killed has let go of it.
void sweep_meeting_place(const std::string& socket);
bool sweep_now(const std::string& socket);
void sweep_after_death(const std::string& socket);

// A socket that listens under a name of its own, until this object goes. Its accepts do not wait.
class OwnSocket {
  public:
    // Under a name that no other process takes. Never waits: it needs no lock, and appears once it listens. kSetting if
    // others could write to the folder.
    static base::Result<OwnSocket> listen(const std::string& name);
    // Under one that others may take, too: kLauncher if somebody listens there. Appears once it listens (MOVED_TO).
    static base::Result<OwnSocket> claim(const std::string& name);
    OwnSocket(OwnSocket&&) = default;
    OwnSocket& operator=(OwnSocket&&) = delete;
    ~OwnSocket();

    int fd() const { return fd_.get(); }
    const std::string& path() const { return path_; }

  private:
    OwnSocket(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

    UniqueFd fd_;
    std::string path_;
};

// The path of the socket at which a job accepts another one under this name (job_meeting.hpp). No job's own socket has
// one that begins so.
std::string name_of_acceptance(const std::string& name);
std::string path_in_meeting_place(const std::string& name);

// The folder, which is made if it is not there. kSetting if it is not private.
base::Result<std::string> open_meeting_place();
// Removes the folder if there is nothing in it.
void close_meeting_place();

// The paths of all jobs that are in the folder, in order; none if there is no folder. kSetting if it is not private.
base::Result<std::vector<std::string>> jobs_that_meet();

// Calls whoever listens at a path, without waiting. kSystem if it is no socket or belongs to another user; kTimeout if
// it does not take callers now. An invalid socket if nobody listens.
base::Result<MessageSocket> call_now(const std::string& path);

// Whoever calls sees this process at the other end from now on, not the one that made the socket. 0, or -1 with errno.
int listen_again(int listener);

// Who is at the other end.
struct Counterpart {
    int pid = 0;
    bool same_user = false;
};
base::Result<Counterpart> counterpart(int socket);

// The next process that has connected; an invalid socket if there is none.
base::Result<MessageSocket> accept_caller(int listener);
// The path that a listening socket was bound to.
base::Result<std::string> path_of_listener(int listener);

} // namespace gpurun::platform
