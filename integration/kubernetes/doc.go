// Package kubernetes runs the chart under Kubernetes' own control plane: etcd, kube-apiserver, kube-controller-manager and kube-scheduler,
// built from their source. The nodes are the test's own. It is a module of its own, and so is controlplane, because that source is large.
//
//	main_test.go      namespaces of the tests' own: everything is inside of them, and ends with them
//	controlplane.go   the programs of Kubernetes
//	node.go           nodes: heartbeats, and a goroutine for each pod
//	pod.go            starts, restarts and stops of a pod's container
//	probes.go         startup, liveness and readiness probes
//	container.go      the process of a container, in namespaces of its own
//	volumes.go        claims, Secrets, ConfigMaps and tokens
//	names.go          the names of the headless Service
//	manifests.go      what helm and kubectl send to the API
//	cluster.go        a control plane with nodes and a release of the chart
//	guard.go          clients that know what was acknowledged
//	certificates.go   an authority, as cert-manager is one
//
// # How these nodes differ from a kubelet
//
//   - A pod has one container, and no limits of memory and processor time.
//   - The names of the Service are in a file of hosts, and not in a DNS server. They change at most 0.2 s after the EndpointSlices.
//   - Each node reaches each volume at once. Nothing is attached.
//   - Services have no addresses, and network policies no effect.
//   - A pod that is deleted by force ends at once.
//   - Times are shorter where only their proportion counts: heartbeats, the limit for a dead node, what its pods tolerate, and how soon the
//     files of a Secret change. The constants name the usual times.
package kubernetes
