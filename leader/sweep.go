package leader

import (
	"context"
	"fmt"
	"time"

	pb "google.golang.org/protobuf/proto"

	"rollcall/jute"
	"rollcall/proto"
)

// sweepNodes is how many nodes of an ended session one transaction removes, and so one
// entry: everybody waits for that as for as many writes, 1 to 2 ms.
const sweepNodes = 500

// sweepLoop proposes to remove what ended sessions have left, one step after the other.
// Between two it pauses for as long as the last one took: the writes of others, and what
// else runs on the machine, have half of the time at least.
func (l *Leader) sweepLoop(ctx context.Context) error {
	body, err := pb.Marshal(&proto.Sweep{Nodes: sweepNodes})
	if err != nil {
		return fmt.Errorf("leader: encode sweep: %w", err)
	}
	for {
		if !l.cfg.Nodes.Unswept() {
			select {
			case <-ctx.Done():
				return nil
			case <-l.unswept:
			}
			continue
		}
		begun := time.Now()
		if !l.intake.offer(&proto.Txn{Op: int32(jute.OpSweep), Body: body}) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.swept:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Since(begun)):
		}
	}
}

// Unswept notes that an ended session has left nodes. Apply calls it: it does not block.
func (l *Leader) Unswept() { signal(l.unswept) }

// Swept notes that a sweep has applied. Apply calls it: it does not block.
func (l *Leader) Swept() { signal(l.swept) }
