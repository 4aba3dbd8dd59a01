#!/usr/bin/env bash
# ensemble.sh up starts the members of compose.yaml and returns when all are healthy.
# ensemble.sh down stops them; with VOLUMES=1 it also deletes their data.
# COMPOSE_PROJECT_NAME (default rollcall) names the ensemble. Two ensembles need different names.
set -euo pipefail
cd "$(dirname "$0")"

export COMPOSE_PROJECT_NAME=${COMPOSE_PROJECT_NAME:-rollcall}
limit=60 # seconds within which all must be healthy; it usually takes about 6

# compose runs Docker's compose plugin, or the older program docker-compose.
if docker compose version >/dev/null 2>&1; then
  compose() { docker compose "$@"; }
else
  compose() { docker-compose "$@"; }
fi

# health prints a line for each member: its name, its state and its health.
health() {
  docker ps --all --quiet --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" |
    xargs -r docker inspect --format '{{.Name}} {{.State.Status}} {{if .State.Health}}{{.State.Health.Status}}{{end}}'
}

# share puts a new secret into the volume of the secret, unless there is one. The volume is mounted in a
# container that is never started: the image has no program that could write a file.
share() {
  local helper
  helper=$(docker create --volume "${COMPOSE_PROJECT_NAME}_secret:/secret" "${ROLLCALL_IMAGE:-rollcall}")
  if ! docker cp "$helper:/secret/secret" - >/dev/null 2>&1; then
    local directory
    directory=$(mktemp -d)
    (umask 077 && head -c 32 /dev/urandom | base64 >"$directory/secret")
    # 1000 is the image's user
    tar -C "$directory" --owner=1000 --group=1000 --mode=400 -c secret | docker cp - "$helper:/secret"
    rm -r "$directory"
  fi
  docker rm --force --volumes "$helper" >/dev/null # --volumes removes those without a name only
}

up() {
  local began=$SECONDS
  compose up --no-start # makes the volumes
  share
  compose up --detach
  until [ "$(health | grep -c ' running healthy$')" -eq 3 ]; do
    if [ $((SECONDS - began)) -ge "$limit" ]; then
      echo "not healthy after $limit s:" >&2
      health >&2
      compose logs --tail 20 >&2
      return 1
    fi
    sleep 0.2
  done
  local at=127.0.0.1
  echo "healthy after $((SECONDS - began)) s: connect to $at:${ROLLCALL_PORT1:-2181},$at:${ROLLCALL_PORT2:-2182},$at:${ROLLCALL_PORT3:-2183} (make down stops)"
}

down() {
  if [ "${VOLUMES:-}" = 1 ]; then
    compose down --volumes
  else
    compose down
    echo "the data stay in volumes: make down VOLUMES=1 deletes them"
  fi
}

case ${1:-} in
  up | down) "$1" ;;
  *) echo "usage: $0 up | down" >&2; exit 2 ;;
esac
