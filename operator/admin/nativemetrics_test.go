package admin

import (
	"testing"
	"time"
)

// healthSource is a member whose health a test sets.
type healthSource struct {
	*fakeSource
	health Health
}

func (s *healthSource) Health() Health { return s.health }

// scrapedWith returns a member's metrics as Prometheus gets them.
func scrapedWith(t *testing.T, health Health) scrape {
	t.Helper()
	source := &healthSource{&fakeSource{role: "leader"}, health}
	words, err := NewFourLetterCommands(FourLetterConfig{Version: "1", Source: source})
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHTTP(HTTPConfig{HTTPSettings: HTTPSettings{BareMetrics: true}, FourLetter: words, Source: source, Operations: newFakeOps()})
	if err != nil {
		t.Fatal(err)
	}
	return scraped(t, h)
}

// Prometheus gets the member's native metrics and the ones about its health, also while the member hangs. Then the
// metrics of mntr are missing.
func TestNativeMetricsOfAStalledMember(t *testing.T) {
	for _, stalled := range []string{"", "the disk hangs"} {
		got := scrapedWith(t, Health{Role: "leader", Stalled: stalled})
		for _, name := range []string{"rollcall_term", "rollcall_leader_known", `rollcall_build_info{version="` + VersionText("1", time.Time{}) + `"}`} {
			if _, ok := got.value[name]; !ok {
				t.Errorf("stalled %q: no %s", stalled, name)
			}
		}
		if _, ok := got.value["znode_count"]; ok != (stalled == "") {
			t.Errorf("stalled %q: znode_count is shown: %t", stalled, ok)
		}
	}
}

// Every flag shows its own fault, and nothing else.
func TestFlagsOfAMember(t *testing.T) {
	for name, health := range map[string]Health{
		"rollcall_leader_known": {HasLeader: true}, "rollcall_joining": {Joining: true},
		"rollcall_stalled": {Stalled: "hangs"}, "rollcall_damaged": {Damage: "bits"}, "rollcall_cut_off": {CutOff: "no leader"}, "rollcall_serving": {Role: "follower"},
	} {
		got := scrapedWith(t, health)
		for _, flag := range []string{
			"rollcall_leader_known", "rollcall_joining", "rollcall_stalled", "rollcall_damaged", "rollcall_cut_off", "rollcall_serving", "rollcall_leading",
		} {
			if got.value[flag] == 1 != (flag == name) {
				t.Errorf("of %+v, %s is %v", health, flag, got.value[flag])
			}
		}
	}
	if got := scrapedWith(t, Health{Role: "follower", Drained: true}); got.value["rollcall_serving"] != 0 {
		t.Error("a drained member serves")
	}
	for _, role := range []string{"leader", "standalone"} {
		if got := scrapedWith(t, Health{Role: role}); got.value["rollcall_leading"] != 1 {
			t.Errorf("a %s does not lead", role)
		}
	}
}
