// Package deploy holds only tests. They check the unit for systemd, the packages and the manifests for
// Kubernetes, run the commands of docs/production.md, docs/security.md and other pages, run the container
// image as a pod would, and start the ensemble of deploy/compose.yaml with `make up`. They break it with
// Docker's means: they kill a member, or take its network away, and `rollcall drill` does with its hooks for containers. A ZooKeeper client on the published ports checks it. The tests of containers,
// TestEnsemble and TestPods, need a container engine; only the nightly form plays these two.
//
// Containers, networks, volumes and the image carry the name of this run, and are removed when it
// ends. Nothing relies on a fixed sleep: tests wait for conditions, up to a limit far above what a
// busy machine needs.
package deploy
