// Package kubernetes runs the chart under Kubernetes' own control plane: etcd, kube-apiserver, kube-controller-manager and kube-scheduler,
// built from their source. It is a module of its own, and so is controlplane, because that source is large. Everything is in namespaces of
// the tests, which end with them.
package kubernetes
