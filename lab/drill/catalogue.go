package drill

import (
	"fmt"
	"time"

	"rollcall/lab/target"
)

// All returns the drills, in the order in which `drill full` runs them.
func All() []*Drill { return catalogue }

// anotherMember stands for a member that is not the first one, in what a drill needs.
const anotherMember = "?"

// slowLink, lossyLink and narrowLink are the links of a wide network, a bad one, and a crowded one.
var (
	slowLink   = target.Fault{Kind: target.Slow, Delay: 25 * time.Millisecond}
	lossyLink  = target.Fault{Kind: target.Slow, Loss: 0.02}
	narrowLink = target.Fault{Kind: target.Slow, Rate: 256 << 10}
)

// kills, stops and so on name the needs of drills.
var (
	kills = []target.Fault{{Kind: target.Kill}}
	stops = []target.Fault{{Kind: target.Stop}}
	cuts  = []target.Fault{{Kind: target.Cut, Client: true}}
)

// These are the texts of the faults that stop a member.
const (
	stopText       = "SIGSTOP of member %s"
	stopLeaderText = stopText + ", the leader"
)

var catalogue = []*Drill{
	{
		Name: "leader-kill", Title: "The leader is killed",
		Does: "Kills the leader with SIGKILL, and starts it again after one session timeout.", Needs: kills, lasts: 1,
		run: breaks((*stage).awaitLeader, 1, kills[0], "kill -9 of member %s, the leader"),
	},
	{
		Name: "follower-kill", Title: "A follower is killed",
		Does: "Kills a follower with SIGKILL, and starts it again after one session timeout.", Needs: kills, lasts: 1, run: killFollower,
	},
	{
		Name: "majority-kill", Title: "A majority is killed",
		Does: "Kills two of three members, leader and follower, for one and a half session timeouts, and starts them again.", Needs: kills, lasts: 1.5,
		run: killMajority,
	},
	{
		Name: "all-kill", Title: "All members are killed at once",
		Does: "Kills all members with SIGKILL, and starts them again.", Needs: kills, lasts: 0.25, extra: 2 * time.Second, run: killAll,
	},
	{
		Name: "leader-pause", Title: "The leader stands still for less than a session timeout",
		Does: "Stops the leader with SIGSTOP for a third of the session timeout.", Needs: stops, lasts: 0.4,
		run: breaks((*stage).awaitLeader, 1.0/3, stops[0], stopLeaderText),
	},
	{
		Name: "leader-long-pause", Title: "The leader stands still for longer than the session timeout",
		Does: "Stops the leader with SIGSTOP for two session timeouts. It wakes up and believes for a moment that it leads.", Needs: stops, lasts: 2.2,
		run: breaks((*stage).awaitLeader, 2, stops[0], stopLeaderText),
	},
	{
		Name: "follower-pause", Title: "A follower stands still for less than a session timeout",
		Does: "Stops a follower with SIGSTOP for a third of the session timeout.", Needs: stops, lasts: 0.4,
		run: breaks((*stage).pickFollower, 1.0/3, stops[0], stopText),
	},
	{
		Name: "follower-long-pause", Title: "A follower stands still for longer than the session timeout",
		Does: "Stops a follower with SIGSTOP for two session timeouts. Its clients must have found another member.", Needs: stops, lasts: 2.2,
		run: breaks((*stage).pickFollower, 2, stops[0], stopText),
	},
	{
		Name: "rolling-restart", Title: "All members are restarted, one after the other",
		Does: "Ends each member with SIGTERM, the leader last, and continues when the ensemble is well again.", Needs: []target.Fault{{Kind: target.Shut}}, lasts: 0, extra: 20 * time.Second,
		run: restartEach,
	},
	{
		Name: "member-wiped", Title: "A member comes back without its data",
		Does: "Kills a follower, removes its data, and starts it again under its old name.", Needs: []target.Fault{{Kind: target.Wipe}}, lasts: 0.5,
		extra: 5 * time.Second, run: wipeFollower,
	},
	{
		Name: "member-wiped-majority-lost", Title: "A member that is behind and one without its data are left alone",
		Does:  "Kills a follower, later removes the data of the other one and kills the leader. The two followers come back first, and the leader after one and a half session timeouts.",
		Needs: []target.Fault{{Kind: target.Wipe}, {Kind: target.Kill}}, lasts: 3, extra: 5 * time.Second, run: wipeMajority,
	},
	{
		Name: "leader-cut", Title: "The leader is cut off",
		Does: "Cuts the leader off from the other members and from clients, for two session timeouts.", Needs: cuts, lasts: 2.2,
		run: breaks((*stage).awaitLeader, 2, cuts[0], "member %s, the leader: cut off from all"),
	},
	{
		Name: "leader-cut-peers", Title: "The leader keeps its clients and loses the other members",
		Does: "Cuts the leader off from the other members alone. Its clients still reach it, and must not be told that it leads.", Needs: []target.Fault{{Kind: target.Cut}},
		lasts: 2.2, run: breaks((*stage).awaitLeader, 2, target.Fault{Kind: target.Cut}, "member %s, the leader: cut off from the other members"),
	},
	{
		Name: "leader-cut-one-way", Title: "Only what the leader sends is lost",
		Does: "Loses what the leader sends to the other members. It still hears them.", Needs: []target.Fault{{Kind: target.Cut, OneWay: true}}, lasts: 2.2,
		run: breaks((*stage).awaitLeader, 2, target.Fault{Kind: target.Cut, OneWay: true}, "member %s, the leader: is not heard by the other members"),
	},
	{
		Name: "follower-cut", Title: "A follower is cut off",
		Does: "Cuts a follower off from the other members. Its clients still reach it.", Needs: []target.Fault{{Kind: target.Cut}}, lasts: 2.2,
		run: breaks((*stage).pickFollower, 2, target.Fault{Kind: target.Cut}, "member %s: cut off from the other members"),
	},
	{
		Name: "bridge", Title: "Two members do not hear each other, and both hear the third",
		Does: "Cuts the leader off from one follower. The other follower still reaches both.", Needs: []target.Fault{{Kind: target.Cut, From: []string{anotherMember}}}, lasts: 2.2,
		run: bridgePartition,
	},
	{
		Name: "slow-links", Title: "The links between members are slow",
		Does: "Delays all that members send by 25 ms, for two session timeouts.", Needs: []target.Fault{slowLink}, lasts: 2.2,
		run: breaksEach(2, slowLink, "25 ms on the links of member %s"),
	},
	{
		Name: "lossy-links", Title: "The links between members lose packets",
		Does: "Loses 2 % of the packets of members, for two session timeouts.", Needs: []target.Fault{lossyLink}, lasts: 2.2,
		run: breaksEach(2, lossyLink, "2 %% loss on the links of member %s"),
	},
	{
		Name: "forgotten-flows", Title: "The network forgets the connections between members",
		Does:  "Loses all packets of the leader's present connections with other members, as a firewall does that was restarted. New connections work.",
		Needs: []target.Fault{{Kind: target.Forget}}, lasts: 2.2,
		run: breaks((*stage).awaitLeader, 2, target.Fault{Kind: target.Forget}, "the connections of member %s, the leader, are forgotten"),
	},
	{
		Name: "narrow-links", Title: "The links between members are narrow",
		Does: "Leaves members 256 kB a second each, for two session timeouts.", Needs: []target.Fault{narrowLink}, lasts: 2.2,
		run: breaksEach(2, narrowLink, "256 kB a second on the links of member %s"),
	},
	{
		Name: "disk-stall", Title: "The leader's disk stands still",
		Does: "Makes the leader's writes to disk hang for one and a half session timeouts.", Needs: []target.Fault{{Kind: target.Disk, Mode: "stall"}}, lasts: 1.7,
		run: breaks((*stage).awaitLeader, 1.5, target.Fault{Kind: target.Disk, Mode: "stall"}, "disk stall at member %s, the leader"),
	},
	{
		Name: "follower-disk-stall", Title: "A follower's disk stands still",
		Does: "Makes a follower's writes to disk hang for one and a half session timeouts.", Needs: []target.Fault{{Kind: target.Disk, Mode: "stall"}}, lasts: 1.7,
		run: breaks((*stage).pickFollower, 1.5, target.Fault{Kind: target.Disk, Mode: "stall"}, "disk stall at member %s"),
	},
	{
		Name: "disk-fail", Title: "The leader's disk fails",
		Does: "Makes the leader's writes to disk fail for one session timeout.", Needs: []target.Fault{{Kind: target.Disk, Mode: "fail"}}, lasts: 1.2,
		run: breaks((*stage).awaitLeader, 1, target.Fault{Kind: target.Disk, Mode: "fail"}, "disk fail at member %s, the leader"),
	},
	{
		Name: "disk-full", Title: "The leader's disk is full",
		Does: "Fills the leader's disk for one session timeout.", Needs: []target.Fault{{Kind: target.Fill}}, lasts: 1.2,
		run: breaks((*stage).awaitLeader, 1, target.Fault{Kind: target.Fill}, "the disk of member %s, the leader, is full"),
	},
	{
		Name: "clock-step", Title: "The leader's clock jumps by an hour",
		Does: "Moves the leader's clock one hour ahead, and back.", Needs: []target.Fault{{Kind: target.Clock, Delay: time.Hour}}, lasts: 2,
		run: breaks((*stage).awaitLeader, 1, target.Fault{Kind: target.Clock, Delay: time.Hour}, "the clock of member %s, the leader, is an hour ahead"),
	},
	{
		Name: "upgrade", Title: "Members are upgraded, and rolled back",
		Does:  "Restarts all members but one with the binary of `--other`, the leader last, and rolls them back.",
		Needs: []target.Fault{{Kind: target.Upgrade}}, lasts: 1, extra: 12 * time.Second, run: upgradeMembers,
	},
	{
		Name: "member-added", Title: "A member comes in, and goes again",
		Does: "Adds a member without data, reads from it what the clients have written, and removes it.", Needs: []target.Fault{{Kind: target.Add}}, lasts: 1,
		extra: 8 * time.Second, run: bringsIn(target.Add, "a member is added, at member %s", "the member is removed, at member %s"),
	},
	{
		Name: "member-replaced", Title: "A member is replaced by another one",
		Does: "Replaces a follower by a member with another number and no data, and that one by one with the former number and no data.", Needs: []target.Fault{{Kind: target.Replace}},
		lasts: 1, extra: 15 * time.Second,
		run: bringsIn(target.Replace, "member %s is replaced by another one", "member %s comes back without its data, in place of the other one"),
	},
	{
		Name: "backup-restored", Title: "A backup is made, and another ensemble begins with it",
		Does: "Makes a backup at a follower while clients write, restores it into three new members, and reads it from each.", Needs: []target.Fault{{Kind: target.Backup}},
		beside: true, extra: 10 * time.Second, run: restoreBackup,
	},
	{
		Name: "secret-rotated", Title: "The members' secret is rotated",
		Does: "Gives each member a second secret, and then the new one alone.", Needs: []target.Fault{{Kind: target.Secret, Mode: target.Both}}, extra: 5 * time.Second, run: rotateSecret,
	},
	{
		Name: "certificates-rotated", Title: "The certificates of members and clients are rotated",
		Does:  "Starts three members with certificates, and clients with TLS, and replaces their authority: both are believed, then all get new certificates, then the new one alone is believed.",
		Needs: []target.Fault{{Kind: target.Keys, Mode: target.Both}}, own: &target.ProcessConfig{Proof: target.ByCertificates, Secure: true}, extra: 10 * time.Second, run: rotateKeys,
	},
	{
		Name: "move-in", Title: "An ensemble moves in from ZooKeeper",
		Does:  "Starts three servers of ZooKeeper, stops them while clients use them, imports their data, and starts Rollcall at their addresses.",
		Needs: []target.Fault{{Kind: target.MoveIn}}, own: &target.ProcessConfig{Program: target.ZooKeeper}, lasts: 1, extra: 15 * time.Second, run: moveIn,
	},
	{
		Name: "silent-clients", Title: "Clients fall silent",
		Does: fmt.Sprintf("Opens %d sessions with an ephemeral node each, which then send nothing. They must end in time, and no others.", silentSessions), lasts: 2.5,
		run: silenceClients,
	},
	{
		Name: "hostile-clients", Title: "Strangers send what no client sends",
		Does: fmt.Sprintf("Opens %d connections that send garbage, frames that never end, and nothing.", hostileConnections), lasts: 1, extra: 2 * time.Second, run: connectStrangers,
	},
	{
		Name: "mass-expiry", Title: "Thousands of sessions expire at once", Tier: Heavy,
		Does: fmt.Sprintf("Opens %d sessions with an ephemeral node each, which then send nothing.", massSessions), lasts: 3, extra: 20 * time.Second, run: massExpiry,
	},
	{
		Name: "reconnect-storm", Title: "15,000 clients reconnect at once", Tier: Heavy,
		Does: fmt.Sprintf("Opens %d sessions, and kills the member that has a third of them.", stormSessions), Needs: kills, lasts: 2, extra: 60 * time.Second, run: killWithManySessions,
	},
	{
		Name: "many-ephemerals", Title: "One session has 100,000 ephemeral nodes", Tier: Heavy,
		Does: fmt.Sprintf("Makes %d ephemeral nodes in one session, and lets it fall silent.", manyEphemerals), lasts: 3, extra: 60 * time.Second, run: abandonEphemerals,
	},
}
