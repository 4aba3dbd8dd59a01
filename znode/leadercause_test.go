package znode

import (
	"math"
	"testing"
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// causeRecorder records the causes that apply reports.
type causeRecorder struct {
	Hooks
	causes []LeaderCause
}

func (r *causeRecorder) TermStarted(_ Term, why LeaderCause) { r.causes = append(r.causes, why) }

// A cause is reported if it can be, whatever the entry has. The entry itself counts in any case, and the state does not have
// the cause: members that read it and members that do not have the same digest.
func TestLeaderCauseInTermStart(t *testing.T) {
	const term = 7
	year := 365 * 24 * time.Hour
	for name, tt := range map[string]struct {
		in   *proto.LeaderCause
		want LeaderCause
		text string
	}{
		"of an older version":     {nil, LeaderCause{}, "unknown"},
		"handed over":             {&proto.LeaderCause{Term: term, Kind: 1, Former: 2, SilentMs: 5}, LeaderCause{Kind: LeaderHandedOver, Former: 2}, "handed over by member 2"},
		"died":                    {&proto.LeaderCause{Term: term, Kind: 2, Former: 255}, LeaderCause{Kind: LeaderDied, Former: 255}, "member 255 died"},
		"silent":                  {&proto.LeaderCause{Term: term, Kind: 3, Former: 2, SilentMs: 1500}, LeaderCause{LeaderSilent, 2, 1500 * time.Millisecond}, "no heartbeat from member 2 for 1.5s"},
		"elected again":           {&proto.LeaderCause{Term: term, Kind: 4, Former: 2}, LeaderCause{Kind: LeaderElectedAgain, Former: 2}, "member 2 stepped down and was elected again"},
		"resumed":                 {&proto.LeaderCause{Term: term, Kind: 5, Former: 2}, LeaderCause{Kind: LeaderResumed, Former: 2}, "member 2 resumed in the same term"},
		"started":                 {&proto.LeaderCause{Term: term, Kind: 6, Former: 2}, LeaderCause{Kind: LeaderStarted}, "no leader known since its start"},
		"of a newer version":      {&proto.LeaderCause{Term: term, Kind: 7, Former: 2}, LeaderCause{}, "unknown"},
		"of a negative kind":      {&proto.LeaderCause{Term: term, Kind: -1, Former: 2}, LeaderCause{}, "unknown"},
		"of a kind that wraps":    {&proto.LeaderCause{Term: term, Kind: 257, Former: 2}, LeaderCause{}, "unknown"},
		"of no kind":              {&proto.LeaderCause{Term: term, Former: 2}, LeaderCause{}, "unknown"},
		"of another term":         {&proto.LeaderCause{Term: term - 1, Kind: 1, Former: 2}, LeaderCause{}, "unknown"},
		"of no member":            {&proto.LeaderCause{Term: term, Kind: 1}, LeaderCause{}, "unknown"},
		"of no possible member":   {&proto.LeaderCause{Term: term, Kind: 2, Former: 256}, LeaderCause{}, "unknown"},
		"silent for ever":         {&proto.LeaderCause{Term: term, Kind: 3, Former: 2, SilentMs: math.MaxUint64}, LeaderCause{LeaderSilent, 2, year}, "no heartbeat from member 2 for 8760h0m0s"},
		"silent without a member": {&proto.LeaderCause{Term: term, Kind: 3, SilentMs: 5}, LeaderCause{}, "unknown"},
	} {
		var digests []uint64
		for _, in := range []*proto.LeaderCause{nil, tt.in} {
			r := &causeRecorder{Hooks: noHooks{}}
			s := New(Config{Self: 1, Hooks: r})
			body := message(&proto.TermStart{Leader: 1, Nonce: 9, Cause: in})
			entry := &proto.Entry{Format: FormatLevel, Nonce: 9, TimeMs: 1, Txns: []*proto.Txn{{Op: int32(jute.OpTermStart), Body: body}}}
			if err := s.ApplyEntry(1, term, entry); err != nil {
				t.Fatal(err)
			}
			digests = append(digests, s.Digest())
			if in != tt.in {
				continue
			}
			if got := r.causes[0]; got != tt.want || got.String() != tt.text {
				t.Errorf("%s: %+v, %q, want %+v, %q", name, got, got, tt.want, tt.text)
			}
		}
		if digests[0] != digests[1] {
			t.Errorf("%s: the digest is %x with the cause, and %x without it", name, digests[1], digests[0])
		}
	}
}
