package cases

import (
	"fmt"
	"slices"
	"strings"

	"rollcall/zk/jute"
)

// acls is group J: permissions and identities.
var acls = []row{
	{number: 168, name: "auth of nobody", where: everywhere, run: aclRefused(acl(31, "auth", ""))},
	{number: 169, name: "auth of a user", where: everywhere, run: aclAuth},
	{number: 170, name: "auth with a null id", where: everywhere, run: aclAuthNull},
	{number: 171, name: "auth of two users", where: everywhere, run: aclAuthTwo},
	{number: 172, name: "a stranger", where: everywhere, run: aclStranger},
	{number: 173, name: "delete is up to the parent", where: everywhere, run: aclDelete},
	{number: 174, name: "wrong password", where: everywhere, run: aclWrongPassword},
	{number: 175, name: "right password", where: everywhere, run: aclRightPassword},
	{number: 176, name: "super", where: everywhere, run: aclSuper},
	{number: 177, name: "masked hash", where: everywhere, run: aclMasked},
	{number: 178, name: "digest ids", where: everywhere, run: aclDigestIDs},
	{number: 179, name: "world of others", where: everywhere, run: aclRefused(acl(31, "world", "other"))},
	{number: 180, name: "schemes nobody may name", where: everywhere, run: aclRefused(
		acl(31, "super", ""), acl(31, "nosuch", "x"), jute.ACL{Perms: 31})},
	{number: 181, name: "own address", where: everywhere, run: aclOwnAddress},
	{number: 182, name: "networks", where: everywhere, run: aclNetworks},
	{number: 183, name: "no addresses", where: everywhere, run: aclRefused(
		acl(31, "ip", "1.2.3"), acl(31, "ip", "1.2.3.256"), acl(31, "ip", "1.2.3.4/33"), acl(31, "ip", "x"))},
	{number: 184, name: "the same entry twice", where: everywhere, run: aclTwice},
	{number: 185, name: "permissions as given", where: everywhere, run: aclOddPerms},
	{number: 186, name: "setACL of nothing", where: everywhere, run: aclSetEmpty},
	{number: 187, name: "setACL on nothing", where: everywhere, run: aclSetNothing},
	{number: 188, name: "read only", where: everywhere, run: aclReadOnly},
	{number: 189, name: "permission before existence", where: everywhere, run: aclBeforeExists},
	{number: 190, name: "permission before absence", where: everywhere, run: aclBeforeMissing},
	{number: 191, name: "a locked root", where: everywhere, run: aclRoot},
	{number: 192, name: "unknown schemes", where: everywhere, run: authUnknown},
	{number: 193, name: "no colon", where: everywhere, run: authNoColon},
	{number: 194, name: "identities end with the connection", where: everywhere, run: authForgotten},
}

// userHash is the digest identity of "u:p".
const userHash = "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ="

func acl(perms jute.Perm, scheme, id string) jute.ACL {
	return jute.ACL{Perms: perms, ID: jute.ID{Scheme: []byte(scheme), ID: []byte(id)}}
}

// under is a create with an ACL.
func under(path string, list ...jute.ACL) jute.CreateRequest {
	return jute.CreateRequest{Path: []byte(path), Data: []byte("x"), ACL: list}
}

func setACL(path string, list ...jute.ACL) jute.SetACLRequest {
	return jute.SetACLRequest{Path: []byte(path), ACL: list, Version: -1}
}

func (k *session) auth(user string) *session {
	k.s.Helper()
	k.ok(jute.OpAuth, digest(user))
	return k
}

// list returns a node's ACL in the form "digest:u:x:31".
func (k *session) list(path string) []string {
	k.s.Helper()
	var resp jute.GetACLResponse
	k.into(k.ok(jute.OpGetACL, jute.GetACLRequest{Path: []byte(path)}), &resp)
	var out []string
	for _, a := range resp.ACL {
		out = append(out, fmt.Sprintf("%s:%s:%d", a.ID.Scheme, a.ID.ID, a.Perms))
	}
	return out
}

// lists checks a node's ACL.
func (k *session) lists(path string, want ...string) {
	k.s.Helper()
	if got := k.list(path); !slices.Equal(got, want) {
		k.s.Errorf("ACL of %s: %q, want %q", path, got, want)
	}
}

// aclRefused tries each entry as a list of its own.
func aclRefused(entries ...jute.ACL) func(*stage) {
	return func(s *stage) {
		k := s.open(s.at, usual)
		for _, e := range entries {
			k.want(jute.InvalidACL, jute.OpCreate, under("/a", e))
		}
		s.absent("/a")
	}
}

func aclAuth(s *stage) {
	k := s.open(s.at, usual).auth("u:p")
	k.ok(jute.OpCreate, under("/a", acl(31, "auth", "")))
	k.lists("/a", "digest:"+userHash+":31")
}

func aclAuthNull(s *stage) {
	k := s.open(s.at, usual).auth("u:p")
	k.ok(jute.OpCreate, under("/a", jute.ACL{Perms: 31, ID: jute.ID{Scheme: []byte("auth")}}))
	k.lists("/a", "digest:"+userHash+":31")
}

func aclAuthTwo(s *stage) {
	k := s.open(s.at, usual).auth("u:p").auth("v:q")
	k.ok(jute.OpCreate, under("/a", acl(31, "auth", "")))
	list := k.list("/a")
	slices.Sort(list)
	if want := []string{"digest:" + userHash + ":31", "digest:v:Mfy8apI9YguGKmh+AxUmAFSwkII=:31"}; !slices.Equal(list, want) {
		s.Errorf("ACL %q, want %q", list, want)
	}
}

// owned creates /a with all permissions for the user of "u:p" only. It returns that client and one
// without permissions.
func (s *stage) owned() (owner, stranger *session) {
	s.Helper()
	owner, stranger = s.pair()
	owner.auth("u:p").ok(jute.OpCreate, under("/a", acl(31, "auth", "")))
	s.quiesce()
	return owner, stranger
}

// barred tries everything that needs a permission on /a itself.
func (k *session) barred(code jute.Code) {
	k.s.Helper()
	k.want(code, jute.OpGetData, get("/a"))
	k.want(code, jute.OpSetData, set("/a", "y"))
	k.want(code, jute.OpGetACL, jute.GetACLRequest{Path: []byte("/a")})
	k.want(code, jute.OpExists, existsRequest("/a"))
	k.want(code, jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte("/a")})
	k.want(code, jute.OpCreate, create("/a/x", jute.Persistent))
	k.want(code, jute.OpSetACL, setACL("/a", jute.OpenACL...))
}

func aclStranger(s *stage) {
	_, k := s.owned()
	k.barred(jute.NoAuth)
	s.absent("/a/x")
}

func aclDelete(s *stage) {
	_, k := s.owned()
	k.remove("/a")
	s.absent("/a")
}

func aclWrongPassword(s *stage) {
	_, k := s.owned()
	if r := k.ok(jute.OpAuth, digest("u:wrong")); r.Zxid != 0 || len(r.Body) != 0 {
		s.Errorf("auth answered with %v", r)
	}
	k.want(jute.NoAuth, jute.OpGetData, get("/a"))
}

func aclRightPassword(s *stage) {
	_, k := s.owned()
	k.auth("u:p").ok(jute.OpGetData, get("/a"))
}

func aclSuper(s *stage) {
	_, k := s.owned()
	k.auth("super:secret").barred(jute.OK)
	s.present("/a/x")
}

func aclMasked(s *stage) {
	owner, k := s.pair()
	owner.auth("u:p").ok(jute.OpCreate, under("/a", acl(31, "digest", userHash), acl(1, "world", "anyone")))
	s.quiesce()
	k.lists("/a", "digest:u:x:31", "world:anyone:1")
	owner.lists("/a", "digest:"+userHash+":31", "world:anyone:1")
}

func aclDigestIDs(s *stage) {
	aclRefused(acl(31, "digest", "u"), acl(31, "digest", "u:"), acl(31, "digest", "a:b:c"))(s)
	k := s.open(s.at, usual)
	k.ok(jute.OpCreate, under("/b", acl(31, "digest", "u:h"), acl(31, "digest", ":h")))
}

// address returns the text of a client's own address, as whoAmI reports it.
func (k *session) address() string {
	k.s.Helper()
	for _, id := range k.who() {
		if a, ok := strings.CutPrefix(id, "ip:"); ok {
			return a
		}
	}
	k.s.Fatal("whoAmI names no address")
	return ""
}

func aclOwnAddress(s *stage) {
	k := s.open(s.at, usual)
	k.ok(jute.OpCreate, under("/a", acl(31, "ip", k.address())))
	k.ok(jute.OpGetData, get("/a"))
	k.set("/a", "y")
}

func aclNetworks(s *stage) {
	k := s.open(s.at, usual)
	k.ok(jute.OpCreate, under("/far", acl(31, "ip", "10.0.0.0/8")))
	k.want(jute.NoAuth, jute.OpGetData, get("/far"))
	k.ok(jute.OpCreate, under("/near", acl(31, "ip", k.address()+"/8")))
	k.ok(jute.OpGetData, get("/near"))
}

func aclTwice(s *stage) {
	k := s.open(s.at, usual)
	k.ok(jute.OpCreate, under("/a", jute.OpenACL[0], jute.OpenACL[0]))
	k.lists("/a", "world:anyone:31")
}

func aclOddPerms(s *stage) {
	k := s.open(s.at, usual)
	k.ok(jute.OpCreate, under("/a", acl(0, "world", "anyone"), acl(64, "world", "anyone")))
	k.barred(jute.NoAuth)
	k.auth("super:secret").lists("/a", "world:anyone:0", "world:anyone:64")
}

func aclSetEmpty(s *stage) {
	k := s.open(s.at, usual)
	k.create("/a", jute.Persistent)
	k.want(jute.InvalidACL, jute.OpSetACL, setACL("/a"))
	k.want(jute.InvalidACL, jute.OpSetACL, setACL("/none"))
}

func aclSetNothing(s *stage) {
	s.open(s.at, usual).want(jute.NoNode, jute.OpSetACL, setACL("/none", jute.OpenACL...))
}

func aclReadOnly(s *stage) {
	k := s.open(s.at, usual)
	k.create("/r", jute.Persistent)
	k.create("/r/d", jute.Persistent)
	k.ok(jute.OpSetACL, setACL("/r", acl(1, "world", "anyone")))
	k.want(jute.NoAuth, jute.OpCreate, create("/r/c", jute.Persistent))
	k.want(jute.NoAuth, jute.OpSetData, set("/r", "y"))
	k.want(jute.NoAuth, jute.OpDelete, remove("/r/d"))
	k.want(jute.NoAuth, jute.OpSetACL, setACL("/r", jute.OpenACL...))
	k.ok(jute.OpGetData, get("/r"))
}

func aclBeforeExists(s *stage) {
	k := s.open(s.at, usual)
	k.create("/r", jute.Persistent)
	k.create("/r/c", jute.Persistent)
	k.ok(jute.OpSetACL, setACL("/r", acl(jute.PermAll&^jute.PermCreate, "world", "anyone")))
	k.want(jute.NoAuth, jute.OpCreate, create("/r/c", jute.Persistent))
}

func aclBeforeMissing(s *stage) {
	k := s.open(s.at, usual)
	k.ok(jute.OpCreate, under("/r", acl(jute.PermAll&^jute.PermDelete, "world", "anyone")))
	k.want(jute.NoAuth, jute.OpDelete, remove("/r/missing"))
}

func aclRoot(s *stage) {
	owner, k := s.pair()
	owner.auth("u:p").ok(jute.OpSetACL, setACL("/", acl(31, "auth", "")))
	s.quiesce()
	k.want(jute.NoAuth, jute.OpCreate, create("/x", jute.Persistent))
	k.want(jute.NoAuth, jute.OpGetData, get("/"))
	owner.ok(jute.OpSetACL, setACL("/", jute.OpenACL...))
	s.quiesce()
	k.create("/x", jute.Persistent)
	owner.ok(jute.OpSetACL, setACL("/", acl(31, "auth", "")))
	s.quiesce()
	k.auth("super:secret").ok(jute.OpSetACL, setACL("/", jute.OpenACL...))
}

func authUnknown(s *stage) {
	for _, scheme := range [][]byte{[]byte("foo"), []byte("world"), nil} {
		k := s.open(s.at, usual)
		r := k.want(jute.AuthFailed, jute.OpAuth, jute.AuthPacket{Scheme: scheme, Auth: []byte("x")})
		if r.Zxid != 0 || len(r.Body) != 0 {
			s.Errorf("scheme %q: answered with %v", scheme, r)
		}
		k.mustEnd(tick)
		k.resume(s.at).mustLive()
	}
}

func authNoColon(s *stage) {
	k := s.open(s.at, usual).auth("blah")
	if who := k.who(); !slices.Contains(who, "digest:blah") {
		s.Errorf("whoAmI: %q", who)
	}
}

func authForgotten(s *stage) {
	k, _ := s.owned()
	k.drop()
	k.resume(s.at).want(jute.NoAuth, jute.OpGetData, get("/a"))
}

// who returns the identities that whoAmI lists: "digest:u".
func (k *session) who() []string {
	k.s.Helper()
	var resp jute.WhoAmIResponse
	k.into(k.ok(jute.OpWhoAmI, nil), &resp)
	var out []string
	for _, c := range resp.ClientInfo {
		out = append(out, fmt.Sprintf("%s:%s", c.AuthScheme, c.User))
	}
	return out
}
