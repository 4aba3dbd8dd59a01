#!/bin/sh
# zksrv.sh LOGDIR FILE PIDFILE: a member in place of the ZooKeeper that Vitess starts.
echo $$ >"$3"
exec "$ROLLCALL" serve "$2" 2>>"$MEMBERS_LOG"
