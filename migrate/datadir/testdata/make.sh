#!/usr/bin/env bash
# Writes the directories plain, gz and snappy: each is the dataDir of a ZooKeeper of Debian, which was ended by
# kill -9, and what the server said of each node and session before (state.json). It needs Debian's packages
# zookeeper, libnetty-java, libsnappy-java and python3-kazoo.
set -euo pipefail
cd "$(dirname "$0")"
jars=/usr/share/java
for method in ${*:-plain gz snappy}; do
  dir=$(mktemp -d)
  rm -rf "$method"
  mkdir -p "$method"
  port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  cat >"$dir/zoo.cfg" <<END
tickTime=2000
dataDir=$dir
clientPortAddress=127.0.0.1
clientPort=$port
admin.enableServer=false
4lw.commands.whitelist=*
END
  java -Xmx256m -Dzookeeper.extendedTypesEnabled=true -Dzookeeper.preAllocSize=8 -Dzookeeper.snapCount=30 \
    -Dzookeeper.snapshot.compression.method=$method -Dfile.encoding=UTF-8 -Dorg.slf4j.simpleLogger.defaultLogLevel=error \
    -cp $jars/zookeeper.jar:$jars/zookeeper-jute.jar:$jars/slf4j-api.jar:$jars/slf4j-simple.jar:$jars/netty-all.jar:$jars/metrics-core.jar:$jars/snappy-java.jar:$jars/commons-cli.jar \
    org.apache.zookeeper.server.ZooKeeperServerMain "$dir/zoo.cfg" &
  server=$!
  trap "kill -9 $server" EXIT
  /usr/bin/python3 -B fill.py "127.0.0.1:$port" >"$method/state.json"
  kill -9 $server
  wait $server || true
  trap - EXIT
  # The two newest snapshots, and the logs from the older one on.
  mkdir "$method/version-2"
  mapfile -t snapshots < <(cd "$dir/version-2" && for f in snapshot.*; do z=${f#snapshot.}; echo "$((16#${z%%.*})) $f"; done | sort -n | tail -2 | cut -d' ' -f2)
  (cd "$dir/version-2" && cp "${snapshots[@]}" log.* "$OLDPWD/$method/version-2")
  rm -rf "$dir"
done
