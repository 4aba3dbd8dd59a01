package cli

import (
	"encoding/json"
	"fmt"
	"testing"
)

// In JSON a command on the members says whether it has changed anything, and who leads then. Run again, it has not.
func TestMembersCommandsSayWhetherTheyChanged(t *testing.T) {
	for _, line := range []string{"lead 2", "add " + four, "remove --if-exists 3"} {
		f := newFakeEnsemble(t, oneToThree)
		for _, changed := range []bool{true, false} {
			out, _, err := f.run(t, line+" -o json")
			var done membersResult
			if err == nil {
				err = json.Unmarshal([]byte(out), &done)
			}
			f.mu.Lock()
			leader, version := f.leader, fmt.Sprintf("0x%x", f.version)
			f.mu.Unlock()
			if err != nil || done.Changed != changed || done.Leader != leader || done.Version != version || done.Member == 0 || done.Outcome == "" {
				t.Errorf("%s: %+v, %v; want changed %t, leader %d, version %s", line, done, err, changed, leader, version)
			}
		}
	}
}
