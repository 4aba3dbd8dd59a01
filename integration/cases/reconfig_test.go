package cases

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/wire"
	"rollcall/member"
	"rollcall/zk/jute"
)

const (
	configNode = "/zookeeper/config"
	// nobody is the id of no server. To remove it changes the version of the list and nothing else.
	nobody = "200"
	user   = "u:p"
	hashed = "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=" // user in an ACL
)

var reconfigOn = cluster.Options{Adjust: func(cfg *member.Config) { cfg.Rules.Reconfig = true }}

// reconfig is a change of any version of the list.
func reconfig(joining, leaving string) jute.ReconfigRequest {
	return jute.ReconfigRequest{JoiningServers: []byte(joining), LeavingServers: []byte(leaving), CurConfigID: -1}
}

// newList checks the reply to a reconfig that succeeded, and returns the list's text.
func (k *session) newList(r wire.Reply) string {
	k.s.Helper()
	var res jute.GetDataResponse
	k.into(r, &res)
	text := string(res.Data)
	if res.Stat.Mzxid != r.Zxid || res.Stat.Version != -1 || !strings.HasSuffix(text, fmt.Sprintf("\nversion=%x", r.Zxid)) {
		k.s.Errorf("zxid %#x: the list is %s, Stat %+v", r.Zxid, text, res.Stat)
	}
	if now := string(k.data(configNode)); now != text {
		k.s.Errorf("the node has %s, the answer %s", now, text)
	}
	return text
}

func reconfigByNobody(s *stage) {
	k := s.open(s.at, usual)
	k.want(jute.NoAuth, jute.OpReconfig, reconfig("", nobody))
	k.auth(user).want(jute.NoAuth, jute.OpReconfig, reconfig("", nobody))
}

// A follower is removed that neither leads nor serves the client.
func reconfigBySuper(s *stage) {
	victims := slices.DeleteFunc(s.Followers(), func(id uint32) bool { return id == s.at })
	victim := victims[0]
	k := s.open(s.at, usual).auth("super:secret")
	w := s.open(s.at, usual)
	if code := w.watchData(configNode); code != jute.OK {
		s.Fatalf("watch: %v", code)
	}
	begun := time.Now()
	text := k.newList(k.ok(jute.OpReconfig, reconfig("", fmt.Sprint(victim))))
	if took := time.Since(begun); took >= time.Second {
		s.Errorf("answered after %v, as if the members had not followed", took)
	}
	if strings.Contains(text, fmt.Sprintf("server.%d=", victim)) || strings.Count(text, "server.") != 2 {
		s.Errorf("%d was removed, and the list is %s", victim, text)
	}
	w.saw("Changed(" + configNode + ")")
}

func reconfigByUser(s *stage) {
	s.open(s.at, usual).auth("super:secret").ok(jute.OpSetACL, setACL(configNode, acl(1, "world", "anyone"), acl(2, "digest", hashed)))
	k := s.open(s.at, usual).auth(user)
	k.newList(k.ok(jute.OpReconfig, reconfig("", nobody)))
}

func reconfigAlone(s *stage) {
	k := s.open(s.at, usual).auth("super:secret")
	k.want(jute.Unimplemented, jute.OpReconfig, reconfig("", nobody))
	k.want(jute.Unimplemented, jute.OpReconfig, reconfig("x", "")) // before its arguments are read
	k.mustLive()
}

func reconfigOfAnotherVersion(s *stage) {
	k := s.open(s.at, usual).auth("super:secret")
	version := k.stat(configNode).Mzxid
	of := func(version int64) jute.ReconfigRequest {
		r := reconfig("", nobody)
		r.CurConfigID = version
		return r
	}
	k.want(jute.BadVersion, jute.OpReconfig, of(version-1))
	k.want(jute.BadVersion, jute.OpReconfig, of(version+1))
	k.newList(k.ok(jute.OpReconfig, of(version)))
	k.want(jute.BadVersion, jute.OpReconfig, of(version))
}

func reconfigOfOddLine(s *stage) {
	k := s.open(s.at, usual).auth("super:secret")
	text := k.data(configNode)
	for _, odd := range []jute.ReconfigRequest{
		reconfig("server.9=h:2888", ""),
		reconfig("server.9=h:2888:3888", ""), // without a port for clients
		reconfig("server.9=h:2888:3888:boss;2181", ""),
		reconfig("server.x=h:2888:3888;2181", ""),
		reconfig("server.256=h:2888:3888;2181", ""),
		reconfig("server.9=m1:2888:3888;2181", ""), // an address of server 1
		reconfig("h", ""),
		reconfig("", "x"),
		reconfig("", "1,2"), // one of them would be left
		{NewMembers: []byte("server.1=m1:2888:3888:observer;2181"), CurConfigID: -1},
		{NewMembers: []byte("server.1=m1:2888:3888;2181"), CurConfigID: -1},
	} {
		k.want(jute.BadArguments, jute.OpReconfig, odd)
	}
	if now := k.data(configNode); string(now) != string(text) {
		s.Errorf("refused changes have changed the list to %s", now)
	}
}

// Three of six participants reply, which is no majority.
func reconfigWithoutMajority(s *stage) {
	k := s.open(s.at, usual).auth("super:secret")
	var joining []string
	for id := 4; id <= 6; id++ {
		joining = append(joining, fmt.Sprintf("server.%d=m%d:2888:3888;2181", id, id))
	}
	k.want(jute.NewConfigNoQuorum, jute.OpReconfig, reconfig(strings.Join(joining, ","), ""))
	k.want(jute.NewConfigNoQuorum, jute.OpReconfig, jute.ReconfigRequest{NewMembers: []byte(strings.Join(joining, ",")), CurConfigID: -1})
	k.create("/a", jute.Persistent) // the ensemble goes on
}
