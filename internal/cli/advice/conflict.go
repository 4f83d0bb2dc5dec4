package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Conflict is one address that several carry in one network.
type Conflict struct {
	Address, Pool string
	// Entry is what the pool records for the address; nil for nothing.
	Entry    *Entry
	Carriers []Carrier
	// Repair is the podref for which --repair would write an entry; "" for none.
	Repair string
}

// Entry is whom a pool names.
type Entry struct {
	PodRef    string // as it is stored: a phantom's is "<namespace>/<name>_<uid>"
	Container string
	// InUse: the sandbox or the pod that it names has the address, by its verdict.
	InUse bool
}

// Carrier is one who carries the address.
type Carrier struct {
	Pod string // "<namespace>/<name>"
	UID string
	// Phantom: the API does not have it.
	Phantom         bool
	Node, Container string // "" where no report tells
	// Since is when the sandbox or the pod was created; zero where that is not known.
	Since time.Time
}

func (c Carrier) String() string {
	text := c.Pod
	if c.Phantom {
		text = "the phantom of " + c.Pod
	}
	if c.Node != "" {
		text += " on " + c.Node
	}
	return text
}

// OfConflict says who keeps the address and why, and how the others give it up, in the
// order in which nobody else is given the address meanwhile.
//
// That order rests on what an ADD and a DEL do (whereabouts v0.9.4,
// pkg/allocate/allocate.go): an ADD hands out the lowest address without an entry, and a
// DEL frees the entry that has its sandbox's id, and no other.
func (a Advisor) OfConflict(c Conflict) []Step {
	var steps []Step
	switch named := c.named(); {
	case len(c.Carriers) < 2:
		steps = a.OfFinding(judge.Conflict, false, Facts{Address: c.Address})
		return steps
	case named >= 0 && !c.Carriers[named].Phantom:
		steps = a.podIsNamed(c, named)
	case named >= 0:
		steps = a.phantomIsNamed(c, named)
	case c.Entry == nil:
		steps = a.nobodyIsNamed(c)
	default:
		steps = a.anotherIsNamed(c)
	}
	return append(steps, a.fill(string(judge.Conflict), c.facts(), []template{{why: "See that it is over.", command: "{program} explain {ip}"}})...)
}

func (c Conflict) facts() Facts { return Facts{Address: c.Address, Pool: c.Pool} }

// named is the carrier that the entry names, by the id of its sandbox, else by its pod; -1
// for none.
func (c Conflict) named() int {
	if c.Entry == nil {
		return -1
	}
	if i := slices.IndexFunc(c.Carriers, func(x Carrier) bool { return x.Container != "" && x.Container == c.Entry.Container }); i >= 0 {
		return i
	}
	podRef, uid, repaired := strings.Cut(c.Entry.PodRef, "_")
	return slices.IndexFunc(c.Carriers, func(x Carrier) bool {
		return x.Pod == podRef && (repaired && x.UID == uid || !repaired && !x.Phantom)
	})
}

// podIsNamed: the others have no entry that their DEL could free.
func (a Advisor) podIsNamed(c Conflict, keeps int) []Step {
	steps := []Step{c.step("%s keeps %s: pool %s records it for that pod. The others must give it up.", c.Carriers[keeps], c.Address, c.Pool)}
	for _, x := range c.others(keeps) {
		if x.Pod == c.Carriers[keeps].Pod && !x.Phantom { // to delete the pod would end the one that keeps it
			x.Phantom = x.Container != "" && x.Node != ""
		}
		steps = append(steps, a.giveUp(c, []Carrier{x})...)
	}
	return steps
}

// phantomIsNamed: if the phantom ended first its DEL would free the entry while others
// carry the address, and the next ADD could hand it out.
func (a Advisor) phantomIsNamed(c Conflict, named int) []Step {
	steps := []Step{c.step("Pool %s records %s for %s, and that entry keeps it from being handed out again. So the others give it up first, and are given addresses of their own. "+
		"If the phantom ended first, its DEL would free the entry while they still carry the address.", c.Pool, c.Address, c.Carriers[named])}
	steps = append(steps, a.giveUp(c, c.others(named))...)
	return append(steps, a.giveUp(c, c.Carriers[named:named+1])...)
}

// nobodyIsNamed: no DEL frees anything, and the next ADD may hand the address out once
// more. An entry comes first, but where all pods but one are phantoms: they are ended.
func (a Advisor) nobodyIsNamed(c Conflict) []Step {
	phantoms, pods := c.split()
	in := "no pool"
	if c.Pool != "" {
		in = "pool " + c.Pool
	}
	switch {
	case len(pods) == 1:
		steps := []Step{c.step("%s keeps %s: the API knows no other pod that has it. Nothing is recorded in %s, so the DEL of a phantom frees nothing; then the entry is written back.", pods[0], c.Address, in)}
		steps = append(steps, a.giveUp(c, phantoms)...)
		return append(steps, a.writeBack(c)...)
	case c.Repair != "" && len(pods) > 0:
		kept := c.keptByRepair()
		steps := append([]Step{c.step("Nothing is recorded for %s in %s. The entry comes first, so that no third pod is given it: --repair writes it for %s, which so keeps it.", c.Address, in, kept)}, a.writeBack(c)...)
		return append(steps, a.giveUp(c, slices.DeleteFunc(slices.Clone(c.Carriers), func(x Carrier) bool { return x == kept }))...)
	}
	steps := []Step{c.step("Nothing is recorded for %s in %s, and nothing can be written back: so none keeps it. Each that is made again is given an address that is recorded.", c.Address, in)}
	return append(steps, a.giveUp(c, append(phantoms, pods...))...)
}

// anotherIsNamed: the entry is held while anybody carries the address, so that it is not
// handed out meanwhile.
func (a Advisor) anotherIsNamed(c Conflict) []Step {
	if c.Entry.InUse {
		steps := []Step{c.step("Pool %s records %s for %s, which has it. All others must give it up.", c.Pool, c.Address, c.Entry.PodRef)}
		return append(steps, a.giveUp(c, c.Carriers)...)
	}
	phantoms, pods := c.split()
	if len(pods) == 0 {
		return append([]Step{c.step("Pool %s records %s for %s, which does not run, and the API knows none of those who carry it: so none keeps it.", c.Pool, c.Address, c.Entry.PodRef)}, a.giveUp(c, phantoms)...)
	}
	steps := []Step{c.step("%s keeps %s, as the pod that has had it longest. Pool %s records it for %s, which does not run: that entry is held while anybody carries the address, so nobody else is given it. "+
		"When only one is left, --repair makes the entry name that one.", pods[0], c.Address, c.Pool, c.Entry.PodRef)}
	steps = append(steps, a.giveUp(c, append(phantoms, pods[1:]...))...)
	return append(steps, a.writeBack(c)...)
}

// split tells phantoms from pods that the API has, each the oldest first.
func (c Conflict) split() (phantoms, pods []Carrier) {
	oldest := slices.SortedStableFunc(slices.Values(c.Carriers), func(a, b Carrier) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Pod, b.Pod))
	})
	for _, x := range oldest {
		if x.Phantom {
			phantoms = append(phantoms, x)
		} else {
			pods = append(pods, x)
		}
	}
	return phantoms, pods
}

func (c Conflict) others(than int) []Carrier {
	return slices.Delete(slices.Clone(c.Carriers), than, than+1)
}

// keptByRepair is the carrier for which an entry would be written.
func (c Conflict) keptByRepair() Carrier {
	podRef, uid, phantom := strings.Cut(c.Repair, "_")
	i := slices.IndexFunc(c.Carriers, func(x Carrier) bool { return x.Pod == podRef && (!phantom || x.UID == uid) })
	if i < 0 {
		return Carrier{Pod: c.Repair}
	}
	return c.Carriers[i]
}

// giveUp is how carriers give the address up: pods that the API has are made again, phantoms
// are ended on their nodes.
func (a Advisor) giveUp(c Conflict, carriers []Carrier) (steps []Step) {
	for _, x := range carriers {
		f := c.facts()
		f.Pod, f.Container, f.Nodes = x.Pod, x.Container, nil
		if x.Node != "" {
			f.Nodes = []string{x.Node}
		}
		of := []template{{why: "Delete {pod}: whoever made it makes it again, and it is given another address than {ip}. One that nobody made stays away.", command: "kubectl delete pod -n {podnamespace} {podname}"}}
		if x.Phantom {
			of = []template{{why: "End this sandbox of {pod} on {node}, which is not the one that the API's pod runs in, and has {ip}: its containers end at once.", command: "crictl stopp {container} && crictl rmp {container}", on: "{node}"}}
		}
		steps = append(steps, a.fill(string(judge.Conflict), f, of)...)
	}
	return steps
}

func (a Advisor) writeBack(c Conflict) []Step {
	return a.fill(string(judge.Conflict), c.facts(), repair("Have the entry of {ip} name the one that keeps it."))
}

func (c Conflict) step(format string, args ...any) Step {
	why, _ := printable(fmt.Sprintf(format, args...))
	return Step{Cause: string(judge.Conflict), Why: why}
}
