// Package drills holds tests of lab/target against processes of the real binary and of Debian's ZooKeeper, in
// network namespaces too, and tests of what is repaired after the process of a drill was killed. They take real time.
package drills
