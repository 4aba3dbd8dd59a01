package cases

import (
	"fmt"
	"slices"

	"rollcall/zk/jute"
)

// sequential is group H: numbered names.
var sequential = []row{
	{number: 140, name: "from zero", where: everywhere, run: countFromZero},
	{number: 141, name: "plain children count", where: everywhere, run: countPlain},
	{number: 142, name: "deletes do not", where: everywhere, run: countDeleted},
	{number: 143, name: "one counter for all", where: everywhere, run: countShared},
	{number: 144, name: "failures do not count", where: everywhere, run: countFailed},
	{number: 145, name: "collision", where: everywhere, run: countCollision},
	{number: 146, name: "parent made again", where: everywhere, run: countParentAgain},
	{number: 147, name: "in a multi", where: everywhere, run: countMulti},
	{number: 148, name: "in a failed multi", where: everywhere, run: countFailedMulti},
	{number: 149, name: "a hundred and five", where: everywhere, run: countMany},
}

// queue opens a session and creates /q.
func (s *stage) queue() *session {
	s.Helper()
	k := s.open(s.at, usual)
	k.create("/q", jute.Persistent)
	return k
}

// nextIs creates a sequential node, whose path must be want.
func (k *session) nextIs(want, prefix string, mode jute.CreateMode) {
	k.s.Helper()
	if got := k.path(k.create(prefix, mode)); got != want {
		k.s.Fatalf("created %s, want %s", got, want)
	}
}

func countFromZero(s *stage) {
	k := s.queue()
	for i := range 3 {
		k.nextIs(fmt.Sprintf("/q/n-%010d", i), "/q/n-", jute.PersistentSequential)
	}
}

func countPlain(s *stage) {
	k := s.queue()
	k.create("/q/x", jute.Persistent)
	k.nextIs("/q/n-0000000001", "/q/n-", jute.PersistentSequential)
}

func countDeleted(s *stage) {
	k := s.queue()
	for i := range 3 {
		k.nextIs(fmt.Sprintf("/q/n-%010d", i), "/q/n-", jute.PersistentSequential)
	}
	for i := range 3 {
		k.remove(fmt.Sprintf("/q/n-%010d", i))
	}
	k.nextIs("/q/n-0000000003", "/q/n-", jute.PersistentSequential)
}

func countShared(s *stage) {
	k := s.queue()
	k.nextIs("/q/a-0000000000", "/q/a-", jute.PersistentSequential)
	k.nextIs("/q/b-0000000001", "/q/b-", jute.EphemeralSequential)
	k.nextIs("/q/a-0000000002", "/q/a-", jute.EphemeralSequential)
	k.nextIs("/q/b-0000000003", "/q/b-", jute.PersistentSequential)
}

func countFailed(s *stage) {
	k := s.queue()
	k.create("/q/x", jute.Persistent)
	k.want(jute.NodeExists, jute.OpCreate, create("/q/x", 0))
	k.nextIs("/q/n-0000000001", "/q/n-", jute.PersistentSequential)
}

func countCollision(s *stage) {
	k := s.queue()
	k.create("/q/n-0000000001", jute.Persistent)
	for range 2 {
		k.want(jute.NodeExists, jute.OpCreate, create("/q/n-", jute.PersistentSequential))
	}
	k.create("/q/other", jute.Persistent)
	k.nextIs("/q/n-0000000002", "/q/n-", jute.PersistentSequential)
}

func countParentAgain(s *stage) {
	k := s.queue()
	k.nextIs("/q/n-0000000000", "/q/n-", jute.PersistentSequential)
	k.remove("/q/n-0000000000")
	k.remove("/q")
	k.create("/q", jute.Persistent)
	k.nextIs("/q/n-0000000000", "/q/n-", jute.PersistentSequential)
}

func countMulti(s *stage) {
	k := s.queue()
	k.multi("1 /q/n-0000000000, 1 /q/n-0000000001",
		opCreate("/q/n-", jute.PersistentSequential), opCreate("/q/n-", jute.PersistentSequential))
}

func countFailedMulti(s *stage) {
	k := s.queue()
	k.multi("-1/0, -1/-101", opCreate("/q/n-", jute.PersistentSequential), opDelete("/nope"))
	k.nextIs("/q/n-0000000000", "/q/n-", jute.PersistentSequential)
}

func countMany(s *stage) {
	k := s.queue()
	var made []string
	for i := range 105 {
		name := fmt.Sprintf("n-%010d", i)
		k.nextIs("/q/"+name, "/q/n-", jute.PersistentSequential)
		made = append(made, name)
	}
	got := k.children("/q")
	slices.Sort(got)
	if !slices.Equal(got, made) {
		s.Errorf("children %q, want %q", got, made)
	}
}
