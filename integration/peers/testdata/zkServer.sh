#!/bin/sh
# zkServer.sh start-foreground FILE: a member in place of ZooKeeper's server.
exec "$ROLLCALL" serve "$2" 2>>"$MEMBERS_LOG"
