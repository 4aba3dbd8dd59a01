// Package peers runs the tests that other projects have for their ZooKeeper clients on the binary: those of ZooKeeper's own C and
// Java clients, kazoo's, go-zookeeper's, tooz's, taskflow's and Vitess'. Each suite comes from a package that a fresh machine can
// get, and starts its servers as it starts ZooKeeper's. Programs in testdata stand in for ZooKeeper's and run rollcall serve. The
// Java tests start their servers in their own process, so that classes in testdata/zookeeper/java stand in for those of the server.
//
// docs/compatibility.md has a row for each suite: what passed, what did not and why. A test checks that it is what suites
// says, and each suite that its row is true. The package has tests only: see make peers.
package peers
