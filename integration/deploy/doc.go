// Package deploy holds tests alone: they build the container image, start the ensemble
// of deploy/compose.yaml by `make up`, break it by what Docker can do (kill a member,
// take its network away), and look at it with a ZooKeeper client on the published
// ports. They need a container engine and fail without one; ROLLCALL_NO_DOCKER=1
// leaves them out, and says so.
//
// Containers, networks, volumes and the image carry the name of this run, and are gone
// when it ends. Nothing waits a fixed time and hopes: tests wait for conditions, up to
// a limit far above what a busy machine needs.
package deploy
