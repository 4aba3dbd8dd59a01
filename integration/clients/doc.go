// Package clients holds only tests. They run the real binary as processes, break it with signals,
// and connect unchanged ZooKeeper clients to it:
//
//   - the Go client go-zookeeper,
//   - Python's kazoo,
//   - the Java command line zkCli.sh, the Java client itself and Curator's recipes,
//   - the C client.
//
// Programs in other languages are in directories with their names.
//
// A scenario is what a client does. Each is played on one member, and on three whose leader is
// killed in the middle. Clients of the surviving members must see neither a disconnect nor an
// error; those of the killed one keep their session elsewhere. A scenario that passed prints
// "client scenario: NAME SETTING ok".
//
// Nothing here relies on a fixed sleep: tests wait for conditions, up to a limit far above what a
// busy machine needs. Processes end with the test that started them.
package clients
