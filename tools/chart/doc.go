// Package chart holds only tests. They check the manifests in deploy/kubernetes without a cluster, render the Helm chart in
// deploy/chart with Helm's own library, and compare what comes out with the manifests.
package chart
