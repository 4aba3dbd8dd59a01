// Package clients holds tests alone: they run the real binary as processes of this
// machine, break it with signals, and put unchanged ZooKeeper clients on it: the Go
// client go-zookeeper, Python's kazoo, the Java command line zkCli.sh, the Java client
// itself, Curator's recipes and the C client. Programs in other languages are in
// folders of their names.
//
// A scenario is what a client does. Each is played on one member, and on three whose
// leader is killed in the middle: clients of the surviving members must see neither a
// disconnect nor an error, those of the killed one keep their session elsewhere. A
// scenario that passed prints "client scenario: NAME SETTING ok".
//
// Nothing here waits a fixed time and hopes: tests wait for conditions, up to a limit
// far above what a busy machine needs. Processes end with the test that started them.
package clients
