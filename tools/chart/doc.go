// Package chart holds only tests. They render the Helm chart in deploy/chart with Helm's own library, without a
// cluster, and compare what comes out with the manifests in deploy/kubernetes.
package chart
