package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"rollcall/proto"
	"rollcall/quorum/wire"
)

// hellos sends Hello to the other members, and logs their complaints. It is safe for concurrent use.
type hellos struct {
	memberID    uint32
	addressBook *wire.AddressBook
	sendHello   func(ctx context.Context, peer wire.Peer) (*proto.HelloReply, error) // see Config.SendHello
	hasData     func() bool
	logger      *slog.Logger

	mu             sync.Mutex
	lastComplaints map[uint32]string // logged, by member
	rivalHeard     time.Time         // when a member last reported another process with this member's number
}

func newHellos(cfg *Config, hasData func() bool, logger *slog.Logger) *hellos {
	return &hellos{
		memberID: cfg.MemberID, addressBook: cfg.AddressBook, sendHello: cfg.SendHello, hasData: hasData,
		logger: logger, lastComplaints: map[uint32]string{},
	}
}

// helloRound has the results of one round of Hellos, by member.
type helloRound struct {
	replies  map[uint32]*proto.HelloReply
	failures map[uint32]error // those without a usable reply
}

// sendAll sends one Hello to each of the other known members, and returns their replies. It logs the complaints in
// them.
func (h *hellos) sendAll(ctx context.Context) helloRound {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	r := helloRound{replies: map[uint32]*proto.HelloReply{}, failures: map[uint32]error{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, p := range h.addressBook.OnePerMember() {
		if p.ID == h.memberID {
			continue
		}
		wg.Go(func() {
			reply, err := h.sendHello(ctx, p)
			if err == nil {
				err = h.checkReply(p, reply)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				r.failures[p.ID] = err
				return
			}
			r.replies[p.ID] = reply
		})
	}
	wg.Wait()
	h.logComplaints(r)
	return r
}

// checkReply returns an error for a reply of another member than p, or of a member of another ensemble.
func (h *hellos) checkReply(p wire.Peer, reply *proto.HelloReply) error {
	replied, known := replyEnsemble(reply), h.addressBook.EnsembleID()
	switch {
	case reply.GetMember() != p.ID:
		return fmt.Errorf("member %d has replied", reply.GetMember())
	case replied != wire.EnsembleID{} && known != wire.EnsembleID{} && replied != known && h.hasData():
		return wire.ErrOtherEnsemble
	}
	return nil
}

// logComplaints logs members of another ensemble, and disks with two processes, because an operator must act. It
// logs each once.
func (h *hellos) logComplaints(r helloRound) {
	for id, a := range r.replies {
		h.logReportedRival(id, a.GetRival())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, err := range r.failures {
		h.logger.Debug("no usable reply", "peer", id, "err", err)
		switch {
		case errors.Is(err, wire.ErrOtherEnsemble):
			const message = "a member is of another ensemble; to make it join this one, empty its data directory"
			h.logUnlessRepeated(id, message, message, err)
		case errors.Is(err, wire.ErrTwins):
			const message = "a disk has two processes"
			h.logUnlessRepeated(id, message, message, err)
		}
	}
}

// maxRival limits the bytes of another process's addresses in a Hello that are kept and logged.
const maxRival = 256

// logReportedRival logs another process with this member's number that member from, the leader, has reported: once, as
// long as rival does not change. rival is "" if there is none.
func (h *hellos) logReportedRival(from uint32, rival string) {
	rival = strings.Clone(strings.ToValidUTF8(rival[:min(len(rival), maxRival)], ""))
	h.mu.Lock()
	defer h.mu.Unlock()
	if rival == "" {
		delete(h.lastComplaints, from)
		return
	}
	h.rivalHeard = time.Now()
	h.logUnlessRepeated(from, rival, "another process runs with this member's number; stop one of them", rival)
}

// rivalLifetime is the time for which a report of another process with this member's number counts. Members report it in each Hello.
const rivalLifetime = 15 * time.Second

func (h *hellos) hasRival() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.rivalHeard.IsZero() && time.Since(h.rivalHeard) < rivalLifetime
}

// logUnlessRepeated logs a message with its reason, unless the last complaint about the member was the same. The caller
// holds mu.
func (h *hellos) logUnlessRepeated(id uint32, same, message string, reason any) {
	if h.lastComplaints[id] != same {
		h.lastComplaints[id] = same
		h.logger.Error(message, "peer", id, "reason", reason)
	}
}
