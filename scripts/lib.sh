# shellcheck shell=bash
# Shared by the scripts beside it. Sourced, not run.

# shellcheck disable=SC2034  # the scripts that source this use it
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cleanups=()

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
warn() { printf '\033[33mwarning:\033[0m %s\n' "$*" >&2; }
die() {
  printf '\033[31merror:\033[0m %s\n' "$*" >&2
  exit 1
}

# What has to be undone at the end, whatever the end is: last in, first out.
at_end() { cleanups+=("$*"); }
run_cleanups() {
  local status=$? i
  trap - EXIT INT TERM HUP
  for ((i = ${#cleanups[@]} - 1; i >= 0; i--)); do
    eval "${cleanups[i]}" || true
  done
  exit "$status"
}
trap run_cleanups EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

need_root() {
  [ "$(id -u)" = 0 ] && return
  command -v sudo > /dev/null || die "this needs root, and there is no sudo here: run it as root"
  say "this needs root: asking sudo"
  exec sudo --preserve-env=SANDBOXKIT_CACHE,SANDBOXKIT_MIRROR,CI "$0" "$@"
}

# Waits until a command succeeds, at most $1 seconds.
wait_until() {
  local seconds=$1 deadline
  shift
  deadline=$((SECONDS + seconds))
  until "$@" > /dev/null 2>&1; do
    [ "$SECONDS" -lt "$deadline" ] || return 1
    sleep 0.1
  done
}

# Ends one process that we started, and waits for it.
end_process() {
  local pid=$1 i
  kill -TERM "$pid" 2> /dev/null || return 0
  for ((i = 0; i < 100; i++)); do
    kill -0 "$pid" 2> /dev/null || return 0
    sleep 0.1
  done
  kill -KILL "$pid" 2> /dev/null || true
}

engine_answers() {
  curl -fsS --max-time 5 --unix-socket "${1:-/var/run/docker.sock}" http://engine/_ping
}

# Uses the engine that answers, or starts one of our own under $1 that ends with the script.
# Sets $engine_socket.
engine_start() {
  local dir=$1
  engine_socket=/var/run/docker.sock
  if engine_answers "$engine_socket" > /dev/null 2>&1; then
    say "a Docker Engine answers at $engine_socket: using it"
    return
  fi
  command -v dockerd > /dev/null || die "there is no dockerd: install docker.io (scripts/install-deps does)"
  engine_socket=$dir/docker.sock
  say "no Docker Engine answers: starting one of our own (log: $dir/dockerd.log)"
  mkdir -p "$dir"
  dockerd --host "unix://$engine_socket" --data-root "$dir/data" --exec-root "$dir/exec" \
    --pidfile "$dir/dockerd.pid" > "$dir/dockerd.log" 2>&1 &
  local pid=$!
  # dockerd starts its containerd as its own child and ends it.
  at_end "end_process $pid"
  wait_until 60 engine_answers "$engine_socket" || {
    tail -n 20 "$dir/dockerd.log" >&2
    die "the engine did not start"
  }
}
