// Package applications runs two applications that depend on ZooKeeper: ClickHouse and Patroni of
// Debian. They run on three members of Rollcall and on three servers of ZooKeeper 3.8.0, by turns.
// It measures what a failure of the ensemble's leader costs the application, and what drills do to both.
// docs/applications.md has the figures. The package has tests only, and they take minutes: see make soak.
package applications
