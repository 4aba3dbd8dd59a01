package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"rollcall/internal/admission"
	"rollcall/operator/api"
	"rollcall/operator/logs"
)

// described is operator/api/openapi.json, as a program reads it that knows nothing of Rollcall. It allows no keys
// but those that it names.
func described(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range doc.Components.Schemas {
		if s.Value.Properties != nil {
			s.Value.AdditionalProperties = openapi3.AdditionalProperties{Has: new(bool)}
		}
	}
	return doc
}

// validate checks a reply against its description.
func validate(t *testing.T, doc *openapi3.T, e *endpoint, status int, header http.Header, body []byte) {
	t.Helper()
	response := doc.Paths.Find(e.path).GetOperation(e.method).Responses.Value(fmt.Sprint(status))
	if response == nil {
		t.Errorf("%s %s: status %d is not described: %s", e.method, e.path, status, body)
		return
	}
	media := response.Value.Content.Get(header.Get("Content-Type"))
	var value any
	if err := json.Unmarshal(body, &value); err != nil || media == nil {
		t.Errorf("%s %s: %d, Content-Type %s: %v", e.method, e.path, status, header.Get("Content-Type"), err)
		return
	}
	if err := media.Schema.Value.VisitJSON(value); err != nil {
		t.Errorf("%s %s: %d: %v", e.method, e.path, status, err)
	}
}

// example returns a request that is answered with 200: it has all parameters that are needed.
func example(e *endpoint) visit {
	v := visit{method: e.method, path: strings.NewReplacer("{id}", "0x1000012f99a0001", "{request}", "2-19a3f0c2b41").Replace(e.path)}
	for i, name := range e.requiredParameters {
		v.path += [...]string{"?", "&"}[min(i, 1)] + name + "=" + map[string]string{"path": "/a"}[name]
	}
	if e.access.forAdministrators() {
		v.header = signedIn
	}
	switch e.requestBody.(type) {
	case api.NodeCreate:
		v.body = `{"path":"/a/","data":"eA==","sequential":true,"acl":[{"scheme":"world","id":"anyone","perms":"r"}]}`
	case api.NodeSet:
		v.body = `{"path":"/a","data":"eA==","version":3}`
	case api.NodeDelete:
		v.body = `{"path":"/a"}`
	case api.MembersChange:
		v.body = `{"leaving":"3","version":"0x400000005"}`
	case api.MembersLead:
		v.body = `{"member":2}`
	case api.MembersDrain:
		v.body = `{"member":2,"over_ms":0}`
	case api.LogLevel:
		v.body = `{"level":"info"}`
	case api.LimitsChange:
		v.body = `{"set":[{"name":"batch","rule":"subtree /batch requests=5"}],"remove":["clients"]}`
	}
	return v
}

// The replies of the endpoints match the description, with rows as full and as empty as possible. So does every failure
// that it names.
func TestAnswersAreAsDescribed(t *testing.T) {
	doc := described(t)
	for _, e := range testRoutes(t) {
		if !strings.HasPrefix(e.path, "/v1/") || e.replyJSON == nil { // TestEvents reads the stream of events
			continue
		}
		t.Run(e.method+e.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, ops := range []*fakeOps{newFakeOps(), {rows: newFakeOps().rows[:1], ends: newFakeOps().ends[:1], slow: []api.SlowRequest{{Stages: []api.SlowStage{}, Causes: []api.SlowCause{}, MissingIDs: []uint32{}}}}} {
					h, _ := newTestHTTP(t, "leader", on(ops))
					h.member.log, h.member.limits = logs.New(io.Discard, logs.Settings{}, false), &fakeLimits{}
					w := example(&e).to(h)
					if w.Code != http.StatusOK {
						t.Errorf("%d %s", w.Code, w.Body)
					}
					validate(t, doc, &e, w.Code, w.Header(), w.Body.Bytes())
				}
				for _, status := range statuses(&e) {
					h, _ := newTestHTTP(t, "leader")
					w := provoked(t, h, &e, status).to(h)
					if w.Code != status {
						t.Errorf("%d %s, want %d", w.Code, w.Body, status)
					}
					validate(t, doc, &e, w.Code, w.Header(), w.Body.Bytes())
				}
			})
		})
	}
}

// provoked returns a request that fails with a status.
func provoked(t *testing.T, h *HTTP, e *endpoint, status int) visit {
	t.Helper()
	v := example(e)
	switch {
	case status == http.StatusBadRequest:
		v.path += map[bool]string{true: "&", false: "?"}[strings.Contains(v.path, "?")] + "nosuch=1"
	case status == http.StatusUnauthorized && e.access == readAccess:
		v.from = "10.0.0.9:5"
	case status == http.StatusUnauthorized:
		v.header = []string{"Content-Type", "application/json"}
	case status == http.StatusForbidden && e.access == openAccess:
		v.host = "example.com"
	case status == http.StatusForbidden:
		v.header = append(slices.Clone(v.header), "Origin", "https://example.com")
	case status == http.StatusTooManyRequests:
		v.header = append(slices.Clone(v.header), "Authorization", "Bearer wrong")
		h.cfg.CredentialLimiter = admission.NewCredentialLimiter(nil)
		other := visit{method: "GET", path: "/nosuch", from: v.from, header: v.header} // reaches no operation
		for range 10 {
			other.to(h)
		}
		for range 3 { // they wait, so that there is no turn for another one
			go other.to(h)
		}
		t.Cleanup(func() { time.Sleep(admission.MaxAttemptWait) }) // within the bubble: until they are answered
		synctest.Wait()
	case status == http.StatusUnsupportedMediaType:
		v.header = signedIn[:2]
	case status == http.StatusServiceUnavailable && e.longReply:
		for range maxPages {
			h.longReplies.pages <- struct{}{}
			h.longReplies.administratorPages <- struct{}{}
		}
	case status == http.StatusServiceUnavailable && e.access.forAdministrators():
		h.auditor.auditLog = &fullLog{}
	case status == http.StatusNotFound && e.access == readAccess:
		opsOf(h).rows, opsOf(h).slow = nil, nil
	default:
		opsOf(h).err = &Failure{Status: status, Text: "it failed"} // h.member.log is nil
	}
	return v
}
