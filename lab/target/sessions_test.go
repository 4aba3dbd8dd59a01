package target

import "testing"

// Sessions are counted by mntr, or by the connections of all members.
func TestSessions(t *testing.T) {
	for _, tt := range []struct {
		answers []string
		want    int // -1: an error
	}{
		{[]string{"zk_global_sessions\t7\n", "zk_global_sessions\t9\n"}, 7},
		{[]string{"Connections: 3\n", "Connections: 2\r\n"}, 3},
		{[]string{"Connections: 3\n", "zk_global_sessions\t9\n"}, 9},
		{[]string{"Connections: 3\n", notListed}, -1},
		{[]string{"Connections: 99999999999999999999\n"}, -1},
	} {
		var members []Member
		for _, text := range tt.answers {
			members = append(members, answering(t, "1", text))
		}
		n, err := Sessions(t.Context(), members)
		if err != nil {
			n = -1
		}
		if n != tt.want {
			t.Errorf("%q: %d, %v; want %d", tt.answers, n, err, tt.want)
		}
	}
}
