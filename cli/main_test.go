package cli

import (
	"testing"

	"rollcall/integration/alone"
	members "rollcall/member"
)

// oneMember is the member that the tests of commands on nodes share, and memberAddr where it takes clients.
var (
	oneMember  *members.Member
	memberAddr string
)

func TestMain(m *testing.M) {
	alone.Run(m, func(one *members.Member, addr string) { oneMember, memberAddr = one, addr })
}
