package audit

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// objects is a Store in memory. It counts writes.
type objects struct {
	content  [Objects][]byte
	versions [Objects]int
	puts     int
	onPut    func() // called before each write
	onGet    func() // called before each read
	err      error
	answer   error // to a write that is done
}

func (s *objects) Name(object int) string { return fmt.Sprint("object-", object) }

func (s *objects) Get(_ context.Context, object int) ([]byte, string, error) {
	if s.onGet != nil {
		s.onGet()
	}
	if s.versions[object] == 0 {
		return nil, "", s.err
	}
	return s.content[object], fmt.Sprint(s.versions[object]), s.err
}

func (s *objects) Put(_ context.Context, object int, content []byte, version string) error {
	if s.puts++; s.onPut != nil {
		s.onPut()
	}
	if _, now, _ := s.Get(context.Background(), object); s.err != nil || version != now {
		return cmpErr(s.err, ErrConflict)
	}
	if len(content) > maxObject {
		return errors.New("too long")
	}
	s.content[object], s.versions[object] = content, s.versions[object]+1
	return s.answer
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// edit replaces text in an object, as a person would by hand.
func (s *objects) edit(t *testing.T, object int, old, now string) {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(s.content[object]))
	check(t, err)
	text, err := io.ReadAll(r)
	check(t, err)
	if !strings.Contains(string(text), old) {
		t.Fatalf("no %q in %s", old, text)
	}
	s.content[object] = pack([][]byte{[]byte(strings.Replace(string(text), old, now, 1))})
}

func add(t *testing.T, r *Ring, now time.Time, records []Record) {
	t.Helper()
	if left, _, err := r.Append(t.Context(), now, records); err != nil || len(left) > 0 {
		t.Fatalf("%d are missing: %v", len(left), err)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// leak is an allocation whose sandbox has ended.
func leak() *judge.Item {
	return Judged(Observe(UsualPool, Node("worker-1"), FreshReport("worker-1", Gone("box-1", UsualUID))),
		facts.Policy{}).Allocations[0]
}

// some are records of releases. They differ as much as in a cluster.
func some(from, n int, at time.Time) (all []Record) {
	it := leak()
	for i := range n {
		r := ofItem(Released, at, it)
		i += from
		r.IP, r.Key, r.PodRef = fmt.Sprintf("10.1.%d.%d", i/250, i%250), fmt.Sprint(i), fmt.Sprintf("default/web-%d", i)
		r.ContainerID = noise(r.Key) + noise(r.PodRef)
		r.Origin = Origin{"system:serviceaccount:kube-system:ip-reconcile", "ip-reconcile-1", "serve", "1f2e3d4c"}
		all = append(all, r)
	}
	return all
}

// noise is text that cannot be compressed much.
func noise(seed string) string {
	sum := sha256.Sum256([]byte(seed))
	return hex.EncodeToString(sum[:16])
}

func oneSeries(*Record) string { return "" }

func verify(t *testing.T, r *Ring) (lines []Line, faults []Fault) {
	t.Helper()
	lines, err := r.Lines(t.Context())
	check(t, err)
	return lines, Verify(lines, true, oneSeries)
}

func (s *objects) ring() *Ring { return &Ring{Store: s} }

func TestRing_KeepsWhatWasAppended(t *testing.T) {
	s := &objects{}
	r := s.ring()
	for i := range 20 {
		add(t, r, Now, some(i*10, 10, Now))
		if i == 10 { // another process goes on
			r = s.ring()
		}
	}
	lines, faults := verify(t, r)
	if len(lines) != 200 || len(faults) > 0 || s.puts != 20 {
		t.Fatalf("%d lines, %d writes, %v", len(lines), s.puts, faults)
	}
	for i, l := range lines {
		if l.Seq != uint64(i+1) || l.PodRef != fmt.Sprintf("default/web-%d", i) || l.Verdict != judge.Stale {
			t.Fatalf("record %d is %+v", i, l.Record)
		}
	}
}

func TestRing_WrapsAround(t *testing.T) {
	s := &objects{}
	r := s.ring()
	add(t, r, Now, some(0, 100, Now))
	s.puts = 0
	start := time.Now()
	add(t, r, Now, some(100, 10_000, Now))
	took, size, most := time.Since(start), 0, 0
	for _, c := range s.content {
		size, most = size+len(c), max(most, len(c))
	}
	lines, faults := verify(t, r)
	t.Logf("10,000 records in %s and %d writes; %d are kept in %d bytes, the largest object has %d", took, s.puts,
		len(lines), size, most)
	if n := len(lines); n > Objects*perObject || n < (Objects-1)*perObject || len(faults) > 0 || s.puts > 17 {
		t.Errorf("%d lines, %d writes, %v", n, s.puts, faults)
	}
	if last := lines[len(lines)-1]; last.Seq != 10_100 {
		t.Errorf("the last is %d", last.Seq)
	}
	if most > maxObject*3/4 || size/len(lines) > 250 {
		t.Errorf("a record takes %d bytes, an object %d", size/len(lines), most)
	}
}

func TestRing_TakesNoMoreThanAnObjectHolds(t *testing.T) {
	s := &objects{}
	r := s.ring()
	for range 3 {
		records := some(0, 300, Now)
		for i := range records {
			for range 45 { // cannot be compressed
				records[i].Message += noise(fmt.Sprint(i, records[i].Message))
			}
		}
		add(t, r, Now, records)
	}
	if lines, faults := verify(t, r); len(lines) < 300 || len(faults) > 0 {
		t.Errorf("%d lines, %v", len(lines), faults)
	}
	long := some(0, 3, Now)
	var message strings.Builder
	for i := range 20_000 {
		message.WriteString(noise(fmt.Sprint(i)))
	}
	long[1].Message += message.String()
	if left, tooLong, err := r.Append(t.Context(), Now, long); err == nil || len(left) != 0 || tooLong != 1 {
		t.Error("a record that is longer than an object is no error, or others are not added")
	}
	if lines, _ := verify(t, r); lines[len(lines)-1].Message != long[2].Message {
		t.Errorf("the last record is %q", lines[len(lines)-1].Message)
	}
}

func TestRing_Expires(t *testing.T) {
	s := &objects{}
	r := s.ring()
	add(t, r, Now, some(0, 50, Now))
	later := Now.Add(20 * 24 * time.Hour)
	add(t, r, later, some(50, 50, later))
	later = Now.Add(Keep + time.Second)
	add(t, r, later, some(100, 1, later))
	if lines, faults := verify(t, r); len(lines) != 51 || lines[0].Seq != 51 || len(faults) > 0 {
		t.Errorf("%d lines, %v", len(lines), faults)
	}
}

// Two processes append at the same time. No number is missing or taken twice.
func TestRing_Conflicts(t *testing.T) {
	s := &objects{}
	mine, others := s.ring(), s.ring()
	n := 0
	s.onPut = func() {
		if n++; n%2 == 1 && n < 20 {
			add(t, others, Now, some(1000+n, 3, Now))
		}
	}
	for i := range 10 {
		add(t, mine, Now, some(i, 1, Now))
	}
	lines, faults := verify(t, mine)
	own := 0
	for _, l := range lines {
		if len(l.PodRef) == len("default/web-0") {
			own++
		}
	}
	if own != 10 || len(lines) < 20 || len(faults) > 0 {
		t.Errorf("%d of %d lines, %v", own, len(lines), faults)
	}
	s.onPut = func() { s.versions[Objects-1]++ }
	if left, _, err := mine.Append(t.Context(), Now, some(0, 1, Now)); !errors.Is(err, ErrConflict) || len(left) != 1 {
		t.Errorf("conflicts without end: %v", err)
	}
}

func TestVerify_FindsWhatWasDone(t *testing.T) {
	for says, c := range map[string]struct {
		edit  func(*objects)
		place string
		want  string
	}{
		"nothing": {func(*objects) {}, "", ""},
		"another verdict": {func(s *objects) { s.edit(t, 7, `"sandbox":"Gone"`, `"sandbox":"Ready"`) }, "object-7:1",
			"The evidence of record 1 is judged Held, PhantomPod, proven false; the record has Stale, PodGone, proven true"},
		"a record is gone": {func(s *objects) {
			lines, _ := unpack(s.content[7])
			s.content[7] = pack([][]byte{lines[0], lines[2]})
		}, "object-7:2", "Records are missing: record 3 follows record 1"},
		"no JSON": {func(s *objects) { s.edit(t, 7, `{"seq":2,`, `{"seq":two,`) }, "object-7:2", "It cannot be read"},
		"no gzip": {func(s *objects) { s.content[7] = []byte("by hand") }, "object-7", "It cannot be read"},
		"unknown word": {func(s *objects) { s.edit(t, 7, `"sandbox":"Gone"`, `"sandbox":"Away"`) }, "object-7:1",
			"The evidence of record 1 cannot be judged: unknown word \"Away\""},
	} {
		t.Run(says, func(t *testing.T) {
			s := &objects{}
			add(t, s.ring(), Now, some(0, 5, Now))
			c.edit(s)
			_, faults := verify(t, s.ring())
			if c.want == "" != (len(faults) == 0) {
				t.Fatalf("%v", faults)
			}
			var texts []string
			for _, f := range faults {
				if f.Place == c.place {
					texts = append(texts, f.Message)
				}
			}
			if !strings.Contains(strings.Join(texts, "\n"), c.want) {
				t.Errorf("at %s not %q: %v", c.place, c.want, faults)
			}
		})
	}
}

// An object that was damaged or deleted does not stop the history, and the gap shows.
func TestRing_AfterAnObjectWasTouched(t *testing.T) {
	full := func(t *testing.T) (*objects, *Ring) {
		s := &objects{}
		r := s.ring()
		add(t, r, Now, some(0, Objects*perObject-100, Now))
		return s, r
	}
	newest := func(s *objects) int {
		return slices.IndexFunc(s.content[:], func(c []byte) bool {
			lines, err := unpack(c)
			return err == nil && len(lines) == perObject-100
		})
	}
	for says, touch := range map[string]func(*objects){
		"the newest is deleted": func(s *objects) { n := newest(s); s.content[n], s.versions[n] = nil, 0 },
		"the newest is damaged": func(s *objects) { n := newest(s); s.content[n] = []byte("by hand"); s.versions[n]++ },
		"another is deleted":    func(s *objects) { n := (newest(s) + 3) % Objects; s.content[n], s.versions[n] = nil, 0 },
	} {
		t.Run(says, func(t *testing.T) {
			s, r := full(t)
			touch(s)
			add(t, r, Now, some(9000, 700, Now))
			lines, faults := verify(t, r)
			if len(faults) == 0 || !strings.Contains(fmt.Sprint(faults), "Records are missing") {
				t.Errorf("no gap shows: %v", faults)
			}
			if lines[len(lines)-1].PodRef != "default/web-9699" {
				t.Errorf("the last is %+v", lines[len(lines)-1])
			}
		})
	}
}

// buffer is a file.
type buffer struct {
	bytes.Buffer
	err error
}

func (b *buffer) Write(text []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	return b.Buffer.Write(text)
}

// A CronJob runs a month long while everything is paused. Its records do not displace those of releases.
func TestRing_KeepsReleasesDuringAPause(t *testing.T) {
	s := &objects{}
	add(t, s.ring(), Now, some(0, 100, Now))
	at, paused := Now, Record{What: Paused, Message: "everything is paused"}
	for range 28 * 4 {
		at = at.Add(6 * time.Hour)
		paused.Time = at
		other := paused
		other.Pool = "kube-system/10.0.0.0-24"
		add(t, s.ring(), at, []Record{paused, other}) // another process each time
	}
	resumed := paused
	resumed.What = Resumed
	add(t, s.ring(), at, []Record{resumed, paused})
	add(t, s.ring(), at, []Record{paused})
	lines, faults := verify(t, s.ring())
	pauses := 0
	for _, l := range lines {
		if l.What == Paused {
			pauses++
		}
	}
	if len(faults) > 0 || lines[0].What != Released || pauses != 2*28+1 || lines[len(lines)-2].What != Resumed {
		t.Errorf("%d pauses of %d lines, the first %s, %v", pauses, len(lines), lines[0].What, faults)
	}
}

// Whoever can write an object cannot have more memory used than this.
func TestRing_ABombIsCut(t *testing.T) {
	s := &objects{}
	s.content[0], s.versions[0] = pack([][]byte{bytes.Repeat([]byte("\n"), 16<<20)}), 1
	texts, err := unpack(s.content[0])
	check(t, err)
	lines, err := s.ring().Lines(t.Context())
	check(t, err)
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	if len(lines) > 2*perObject || size > maxUnpacked || maxUnpacked > 8<<20 {
		t.Errorf("%d lines, %d bytes", len(lines), size)
	}
	add(t, s.ring(), Now, some(0, 10, Now))
	if lines, _ := s.ring().Lines(t.Context()); len(lines) < 10 || lines[len(lines)-1].What != Released {
		t.Errorf("nothing can be appended any more: %d lines", len(lines))
	}
}
