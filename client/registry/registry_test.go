package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"rollcall/client/group"
	"rollcall/client/internal/roster"
)

// curators are instances as Curator 5.4.0 writes them.
var curators = map[string]Instance{
	`{"name":"plain","id":"id-7","address":"10.0.0.2","port":null,"sslPort":8443,"payload":null,` +
		`"registrationTimeUTC":1795596203928,"serviceType":"DYNAMIC","uriSpec":null}`: {
		Name: "plain", ID: "id-7", Address: "10.0.0.2", SSLPort: 8443, Registered: time.UnixMilli(1795596203928), Type: Dynamic,
	},
	`{"name":"full","id":"id-8","address":"10.0.0.3","port":80,"sslPort":null,` +
		`"payload":{"@class":"Layouts$Node","name":"x<&>"},"registrationTimeUTC":1795596203180,"serviceType":"DYNAMIC",` +
		`"uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false}]}}`: {
		Name: "full", ID: "id-8", Address: "10.0.0.3", Port: 80, Registered: time.UnixMilli(1795596203180), Type: Dynamic,
		Payload: json.RawMessage(`{"@class":"Layouts$Node","name":"x<&>"}`),
		URI:     &URISpec{Parts: []URIPart{{"scheme", true}, {"://", false}}},
	},
	`{"name":"off","id":"id-9","address":"","port":1,"sslPort":2,"payload":null,"registrationTimeUTC":0,` +
		`"serviceType":"STATIC","uriSpec":null,"enabled":false}`: {
		Name: "off", ID: "id-9", Port: 1, SSLPort: 2, Registered: time.UnixMilli(0), Type: Static, Disabled: true,
	},
}

// Instances are read as Curator writes them, and written byte by byte as it does.
func TestInstanceJSON(t *testing.T) {
	for text, want := range curators {
		got, err := decodeInstance([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nread %+v, %v\nwant %+v", text, got, err, want)
		}
		written, err := encodeInstance(want)
		if err != nil || string(written) != text {
			t.Errorf("wrote %s, %v\n want %s", written, err, text)
		}
	}
	later := `{"name":"a","id":"b","address":"h","new":{},"enabled":true}`
	if i, err := decodeInstance([]byte(later)); err != nil || i.Type != Dynamic || i.Disabled {
		t.Errorf("with other keys: %+v, %v", i, err)
	}
}

// What is no instance is rejected.
func TestInstanceMalformed(t *testing.T) {
	for _, text := range []string{
		``, `null`, `[]`, `127.0.0.1`, `{"name":"a"}`, `{"id":"b"}`, `{"name":"a","id":"b","port":65536}`,
		`{"name":"a","id":"b","sslPort":-1}`, `{"name":"a","id":"b","port":"80"}`,
	} {
		if i, err := decodeInstance([]byte(text)); err == nil {
			t.Errorf("%q was read as %+v", text, i)
		}
	}
	for _, i := range []Instance{{Port: -1}, {SSLPort: 65536}, {Payload: json.RawMessage("{")}} {
		if text, err := encodeInstance(i); err == nil {
			t.Errorf("%+v was written as %s", i, text)
		}
	}
	large := Instance{Name: "a", ID: "b", Address: strings.Repeat("x", MaxEntrySize)}
	if _, err := encodeInstance(large); err == nil || !strings.Contains(err.Error(), "at most 65536") {
		t.Errorf("too large: %v", err)
	}
}

// A server is written and read as Finagle and Aurora do it.
func TestServerJSON(t *testing.T) {
	shard := 3
	text := `{"serviceEndpoint":{"host":"h1","port":8080},"additionalEndpoints":{"admin":{"host":"h1","port":9990}},` +
		`"status":"ALIVE","shard":3}`
	want := Server{
		Service: Endpoint{"h1", 8080}, Additional: map[string]Endpoint{"admin": {"h1", 9990}}, Status: Alive, Shard: &shard,
	}
	got, err := decodeServer([]byte(text))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v", got, err)
	}
	written, err := encodeServer(want)
	if err != nil || string(written) != text {
		t.Errorf("wrote %s, %v", written, err)
	}
	least, err := encodeServer(Server{Service: Endpoint{"h", 1}})
	if want := `{"serviceEndpoint":{"host":"h","port":1},"additionalEndpoints":{},"status":"ALIVE"}`; string(least) != want {
		t.Errorf("wrote %s, %v", least, err)
	}
	for _, text := range []string{``, `{}`, `null`, `{"serviceEndpoint":{}}`, `{"serviceEndpoint":{"host":"h","port":0}}`} {
		if s, err := decodeServer([]byte(text)); err == nil {
			t.Errorf("%q was read as %+v", text, s)
		}
	}
	for _, s := range []Server{{}, {Service: Endpoint{"h", 1}, Additional: map[string]Endpoint{"a": {}}}} {
		if text, err := encodeServer(s); err == nil {
			t.Errorf("%+v was written as %s", s, text)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for text := range curators {
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"serviceEndpoint":{"host":"h","port":1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if i, err := decodeInstance(text); err == nil {
			if _, err := encodeInstance(i); err != nil && len(text) < MaxEntrySize/8 {
				t.Errorf("%q: %v", text, err)
			}
		}
		_, _ = decodeServer(text) // must not panic
	})
}

// A server without a status is alive, as it is written and as it is read. One without an endpoint is malformed.
func TestServerStatus(t *testing.T) {
	data, err := encodeServer(Server{Service: Endpoint{Host: "h", Port: 80}})
	if want := `{"serviceEndpoint":{"host":"h","port":80},"additionalEndpoints":{},"status":"ALIVE"}`; err != nil || string(data) != want {
		t.Errorf("%s, %v; want %s", data, err, want)
	}
	s, err := decodeServer([]byte(`{"serviceEndpoint":{"host":"h","port":80}}`))
	if err != nil || s.Status != Alive {
		t.Errorf("%+v, %v", s, err)
	}
	s, err = decodeServer([]byte(`{"serviceEndpoint":{"host":"h","port":80},"status":"DEAD"}`))
	if err != nil || s.Status != "DEAD" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := decodeServer([]byte(`{}`)); !errors.Is(err, errNoEndpoint) {
		t.Error(err)
	}
}

// Ports are 1 to 65535, or 0 for none.
func TestPorts(t *testing.T) {
	for port, ok := range map[int]bool{-1: false, 0: true, 1: true, 65535: true, 65536: false} {
		for _, i := range []Instance{{Name: "x", ID: "a", Port: port}, {Name: "x", ID: "a", SSLPort: port}} {
			data, err := encodeInstance(i)
			if (err == nil) != ok {
				t.Errorf("%+v is written: %v", i, err)
				continue
			}
			if got, err := decodeInstance(data); ok && (err != nil || got.Port != i.Port || got.SSLPort != i.SSLPort) {
				t.Errorf("%+v is read as %+v, %v", i, got, err)
			}
		}
		for _, key := range []string{"port", "sslPort"} {
			if _, err := decodeInstance(fmt.Appendf(nil, `{"name":"x","id":"a","%s":%d}`, key, port)); (err == nil) != ok {
				t.Errorf("%s %d is read: %v", key, port, err)
			}
		}
		if err := (Endpoint{Host: "h", Port: port}).checkPort(); (err == nil) != (ok && port != 0) {
			t.Errorf("the endpoint with port %d: %v", port, err)
		}
	}
}

// An entry whose data were left out is named with the reason, and the others are shown.
func TestListingOfOmitted(t *testing.T) {
	children := []roster.Child{
		{Name: "member_1", Omitted: true},
		{Name: "member_2", Data: []byte(`{"serviceEndpoint":{"host":"h1","port":8080}}`)},
	}
	l := serverset.listingOf("/s", children)
	if len(l.Entries) != 1 || len(l.Malformed) != 1 || l.Malformed[0].Path != "/s/member_1" ||
		!errors.Is(l.Malformed[0], group.ErrTooMuchData) {
		t.Errorf("the listing is %+v", l)
	}
}
