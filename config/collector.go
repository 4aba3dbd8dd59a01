package config

import (
	"errors"
	"net/url"
	"strings"
)

// endpointKey is the key without which the other keys about a collector of OpenTelemetry have no effect.
const endpointKey = "otlp.endpoint"

// maxEndpoint limits the URL of a collector, in bytes. Errors show it.
const maxEndpoint = 1024

// errEndpointSecret is the error of a URL with a part that is no address and may be a secret.
var errEndpointSecret = errors.New("the URL has a user, a query or a fragment; put secrets into the file of otlp.headersFile, and " +
	"leave the rest out")

// collectorURL takes the URL of a collector without the path of a signal.
func collectorURL(field func(*rawConfig) *string) kind {
	return kind{
		allowed:       "a URL such as http://127.0.0.1:4318 or https://collector.example:4318/path",
		mayHoldSecret: func(value string) bool { return strings.ContainsAny(value, "@?#") },
		parse: func(d *rawConfig, s setting) error {
			u, err := url.Parse(s.value)
			if err != nil || len(s.value) > maxEndpoint || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
				return errAllowed
			}
			switch path := strings.TrimRight(u.Path, "/"); {
			case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
				return errEndpointSecret
			case strings.HasSuffix(path, "/v1/traces") || strings.HasSuffix(path, "/v1/metrics"):
				return errors.New("must be the URL before /v1/traces and /v1/metrics, which the member adds")
			}
			return storeValue(d, field, s.value)
		},
	}
}

// checkCollector warns of keys about a collector that have no effect.
func (d *rawConfig) checkCollector() error {
	o := &d.config.OTLP
	for _, k := range keys {
		where := d.setIn[k.name]
		switch {
		case where == "" || !strings.HasPrefix(k.name, "otlp."):
		case o.Endpoint == "":
			d.addWarning(where, "%s has no effect without %s", k.name, endpointKey)
		case strings.HasSuffix(k.name, "Store.location") && isPlain(o.Endpoint):
			d.addWarning(where, "%s has no effect, because %s does not begin with https", k.name, endpointKey)
		case k.name == "otlp.metricsInterval" && o.NoMetrics:
			d.addWarning(where, "%s has no effect, because otlp.metrics is false", k.name)
		}
	}
	if o.NoTraces && o.NoMetrics && o.Endpoint != "" {
		d.addWarning(d.whereSet(endpointKey), "%s has no effect, because otlp.traces and otlp.metrics are false", endpointKey)
	}
	return nil
}

// isPlain reports whether a URL is of plain HTTP.
func isPlain(text string) bool { return len(text) > 5 && strings.EqualFold(text[:5], "http:") }

// riskOfEndpoint returns the danger of plain HTTP to another machine, or "".
func riskOfEndpoint(d *rawConfig) string {
	u, err := url.Parse(d.config.OTLP.Endpoint)
	if err != nil || u.Scheme != "http" || isLoopback(u.Hostname()) {
		return ""
	}
	return "paths of nodes, addresses of clients and the headers of otlp.headersFile cross the network where others may read them; use https"
}
