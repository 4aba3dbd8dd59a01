package keystore

import (
	"context"
	"time"
)

// WatchInterval is the time between two checks of the files: a new certificate is in use before an operator
// has typed the next command, and reading a few kilobytes costs nothing.
const WatchInterval = 10 * time.Second

// reloadDelay is the time between the detection of a change and the reload: one of the files may be half
// written. A part of a trust store can be read, and would reject the certificates of the other authorities.
const reloadDelay = 200 * time.Millisecond

// Watch reloads the files whenever their content has changed, until ctx ends. It compares contents, so that it
// notices any way of replacing a file, such as Kubernetes' symbolic links. If a file cannot be used, it logs
// the reason, once for each change, and the former keys stay. A certificate that is not valid yet is tried
// again when it is. Watch also warns when the own certificate expires soon. With Options.ReloadOnDemandOnly
// that is all it does. One goroutine may call Watch.
func (k *Keys) Watch(ctx context.Context) {
	tick := time.NewTicker(WatchInterval)
	defer tick.Stop()
	tried := k.current.Load().sum
	k.warnIfExpiryDue()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.warnIfExpiryDue()
			if !k.options.ReloadOnDemandOnly {
				tried = k.reloadIfChanged(tried)
			}
		}
	}
}

// reloadIfChanged reloads the files if their content is neither in use nor what was tried last, or if it was
// tried too early. It returns the sum of their content.
func (k *Keys) reloadIfChanged(tried sum) sum {
	seen := k.contentSum()
	if (seen == tried || seen == k.current.Load().sum) && !k.retryDue() {
		return seen
	}
	time.Sleep(reloadDelay)
	seen = k.contentSum()
	k.ReloadAndLog()
	return seen
}

// contentSum returns the sum of the files as they are now. A file that cannot be read counts as empty.
func (k *Keys) contentSum() sum {
	var m material
	paths := []string{k.options.Key.Location, k.options.Trust.Location}
	if k.options.CheckCRLs {
		paths = append(paths, k.options.CRLFile)
	}
	for _, path := range paths {
		if path != "" {
			_, _ = m.readAndSum(path)
		}
	}
	return m.sum
}

// ReloadAndLog reloads the files, and logs that they changed or the reason why they cannot be used.
func (k *Keys) ReloadAndLog() {
	changed, err := k.Reload()
	switch {
	case err != nil:
		k.options.Log.Error("keys not reloaded; the former ones stay in use", "keys", k.options.Prefix+".*", "err", err)
	case changed:
		k.options.Log.Info("keys reloaded", "keys", k.options.Prefix+".*", "until", k.expiryText())
		k.warnExposed()
		k.options.OnChange()
	}
}

// expiryText returns the end of the own certificate, or "" if there is none.
func (k *Keys) expiryText() string {
	cert := k.Certificate()
	if cert == nil {
		return ""
	}
	return cert.Leaf.NotAfter.UTC().Format(time.RFC3339)
}
