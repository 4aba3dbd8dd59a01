package config

import (
	"net/url"
	"strings"

	"rollcall/operator/archive/location"
)

// archiveKey is the key without which the other keys about an archive have no effect.
const archiveKey = "archive.to"

// maxRegion limits the name of a region, in bytes. The longest of Amazon has 14.
const maxRegion = 64

// archiveLocation takes the location of an archive.
func archiveLocation(field func(*rawConfig) *string) kind {
	return kind{
		allowed: location.Forms,
		parse: func(d *rawConfig, s setting) error {
			if location.Check(s.value) != nil {
				return errAllowed
			}
			return storeValue(d, field, s.value)
		},
	}
}

// archiveEndpoint takes the URL of a service with buckets.
func archiveEndpoint(field func(*rawConfig) *string) kind {
	return kind{
		allowed:       "a URL such as https://s3.example:9000",
		mayHoldSecret: func(value string) bool { return strings.ContainsAny(value, "@?#") },
		parse: func(d *rawConfig, s setting) error {
			if err := location.CheckEndpoint(s.value); err != nil {
				return err
			}
			return storeValue(d, field, s.value)
		},
	}
}

// regionName takes the name of a region.
func regionName(field func(*rawConfig) *string) kind {
	return kind{
		allowed: "letters, digits and hyphens, such as eu-central-1",
		parse: func(d *rawConfig, s setting) error {
			if s.value == "" || len(s.value) > maxRegion || strings.Trim(strings.ToLower(s.value), "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
				return errAllowed
			}
			return storeValue(d, field, s.value)
		},
	}
}

// checkArchive warns of keys about an archive that have no effect, and of an archive that may get gaps.
func (d *rawConfig) checkArchive() error {
	a := &d.config.Archive
	for _, k := range keys {
		where := d.setIn[k.name]
		switch {
		case where == "" || k.name == archiveKey || !strings.HasPrefix(k.name, "archive."):
		case a.To == "":
			d.addWarning(where, "%s has no effect without %s", k.name, archiveKey)
		case k.name != "archive.seconds" && !location.IsBucket(a.To):
			d.addWarning(where, "%s has no effect, because %s is a directory", k.name, archiveKey)
		}
	}
	if a.To != "" && d.config.History.Bytes == 0 {
		d.addWarning(d.whereSet(archiveKey), "history.bytes=0: while the archive cannot be reached, a member keeps only what its log has, "+
			"and removes the rest before it is sent; leave history.bytes out")
	}
	return nil
}

// riskOfArchive returns the danger of plain HTTP to another machine, or "".
func riskOfArchive(d *rawConfig) string {
	u, err := url.Parse(d.config.Archive.Endpoint)
	if err != nil || u.Scheme != "http" || isLoopback(u.Hostname()) {
		return ""
	}
	return "the data of all nodes and the passwords of sessions cross the network where others may read them; use https"
}
