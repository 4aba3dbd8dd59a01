// Package controlplane has no code. Its module names the programs of Kubernetes' control plane, which the tests beside it build: etcd,
// kube-apiserver, kube-controller-manager and kube-scheduler. They keep the versions that Kubernetes has tested, because no code of
// Rollcall is in the same module.
package controlplane
