// Package differential sends the same random operations to Debian's ZooKeeper 3.8.0 and to
// Rollcall, frame by frame, and compares the answers. A table lists what may differ. Anything else
// fails the test, which prints the shortest sequence that shows it. The output of zkCli.sh is
// compared, too. The package has only tests.
package differential
