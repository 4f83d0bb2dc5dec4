package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// asked returns the page's answer about the fill of the usual pool, by a Prometheus that answers as given.
func asked(t *testing.T, prometheus http.HandlerFunc) *httptest.ResponseRecorder {
	t.Helper()
	s := httptest.NewServer(prometheus)
	t.Cleanup(s.Close)
	v := viewOf(UsualPool)
	v.Prometheus = strings.Replace(s.URL, "//", "//user:secret@", 1) + "/"
	w := get(pageOf(v), http.MethodGet, "/ui/data/fill?subject=kube-system/10.0.0.0-24")
	if !json.Valid(w.Body.Bytes()) || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("the answer is %s", w.Body)
	}
	return w
}

const matrix = `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[%s]}]}}`

func TestFill_Asks(t *testing.T) {
	w := asked(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if user, password, _ := r.BasicAuth(); r.URL.Path != "/api/v1/query_range" || user+password != "usersecret" ||
			q.Get("end") != fmt.Sprint(Now.Unix()) || q.Get("start") != fmt.Sprint(Now.Unix()-30*24*3600) ||
			q.Get("step") != "14400" || !strings.Contains(q.Get("query"), `state="free",pool="kube-system/10.0.0.0-24"`) {
			t.Errorf("asked for %s", r.URL)
		}
		fmt.Fprintf(w, matrix, fmt.Sprintf(`[%d,"0.25"],[%d,"1"]`, Now.Unix()-20000, Now.Unix()))
	})
	want := fmt.Sprintf("[[%d,0.25],[%d,1]]\n", Now.Unix()-20000, Now.Unix())
	if w.Code != 200 || w.Body.String() != want {
		t.Errorf("%d %s, want %s", w.Code, w.Body, want)
	}
}

// What Prometheus, or whatever answers in its place, says is shown in words or is no point of the line.
func TestFill_Answers(t *testing.T) {
	of := func(values ...string) string { return fmt.Sprintf(matrix, strings.Join(values, ",")) }
	at := func(seconds int64, value string) string { return fmt.Sprintf("[%d,%q]", Now.Unix()+seconds, value) }
	for name, c := range map[string]struct {
		code int
		text string
		want int
		says string
	}{
		"nothing": {200, `{"status":"success","data":{"resultType":"matrix","result":[]}}`, 200, "[]"},
		"an error": {400, `{"status":"error","errorType":"bad_data","error":"parse\u202e \u0007"}`, 502,
			`\"parse\\u202e \\a\"`},
		"a long error":      {422, `{"error":"` + strings.Repeat("x", 5000) + `"}`, 502, strings.Repeat("x", 200) + `\"`},
		"a web page":        {200, "<html>Sign in</html>", 502, "code 200, is not one of Prometheus"},
		"a gateway's error": {504, "<html>", 502, "code 504, is not one of Prometheus"},
		"no status":         {200, `{}`, 502, "is not one of Prometheus"},
		"another type":      {200, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`, 502, "is not one"},
		"two series":        {200, `{"status":"success","data":{"result":[{},{}]}}`, 502, "is not one of Prometheus"},
		"no end":            {200, of(slices.Repeat([]string{at(-5, "0.5")}, 10_000)...), 502, "is not one of Prometheus"},
		"no samples":        {200, of(at(-5, "0.5"), "{}"), 502, "is not one of Prometheus"},
		"no parts":          {200, of(at(-9, "NaN"), at(-8, "1e400"), at(-7, "-1"), at(-6, "1.1"), at(-5, "x")), 200, "[]"},
		"other samples":     {200, of(`[null,null]`, `["1","1"]`, `[1]`, `[]`, `[1,2,3]`, `[true,"0.5"]`), 200, "[]"},
		"other times":       {200, of(at(-31*24*3600, "0.5"), at(0, "0.125"), at(90000, "0.5")), 200, ",0.125]]"},
		"no order":          {200, of(at(-20000, "0.5"), at(-40000, "0.25"), at(-19999, "0.25")), 200, ",0.5]]"},
	} {
		w := asked(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.code)
			fmt.Fprint(w, c.text)
		})
		if w.Code != c.want || !strings.Contains(w.Body.String(), c.says) || w.Body.Len() > 400 {
			t.Errorf("%s: %d %s, want %d %s", name, w.Code, w.Body, c.want, c.says)
		}
	}
}

func TestFill_PointsAreBounded(t *testing.T) {
	w := asked(t, func(w http.ResponseWriter, _ *http.Request) {
		values := make([]string, 3000)
		for i := range values {
			values[i] = fmt.Sprintf(`[%d,"1"]`, Now.Unix()-30*24*3600+int64(i)*864)
		}
		fmt.Fprintf(w, `{"status":"success","data":{"result":[{"values":[%s]}]}}`, strings.Join(values, ","))
	})
	var points [][2]float64
	if err := json.Unmarshal(w.Body.Bytes(), &points); err != nil || len(points) == 0 || len(points) > 181 {
		t.Errorf("%d points: %v", len(points), err)
	}
}

func TestFill_FollowsNobody(t *testing.T) {
	stranger := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the stranger is asked")
	}))
	t.Cleanup(stranger.Close)
	w := asked(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, stranger.URL, http.StatusFound) })
	if w.Code != 502 || !strings.Contains(w.Body.String(), "code 302") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestFill_WaitsFiveSeconds(t *testing.T) {
	t.Parallel()
	w := asked(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if w.Code != 502 || !strings.Contains(w.Body.String(), "Prometheus does not answer: context deadline exceeded") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestFill_WithoutPrometheus(t *testing.T) {
	hasFill := `"hasFill":true`
	for url, says := range map[string]string{
		"":                   "the fill over time needs --prometheus",
		"http://127.0.0.1:1": "Prometheus does not answer: dial tcp 127.0.0.1:1: ",
		"127.0.0.1:9090":     "Prometheus does not answer: first path segment",
		"ftp://host":         `Prometheus does not answer: unsupported protocol scheme \"ftp\"`,
		"http://u:secret@ h": "Prometheus does not answer: ",
	} {
		v := viewOf(UsualPool)
		v.Prometheus = url
		w := get(pageOf(v), http.MethodGet, "/ui/data/fill?subject=kube-system/10.0.0.0-24")
		if w.Code == 200 || !strings.Contains(w.Body.String(), says) || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%q: %d %s", url, w.Code, w.Body)
		}
		pool := get(pageOf(v), http.MethodGet, "/ui/data/pool?subject=kube-system/10.0.0.0-24")
		if pool.Code != 200 || strings.Contains(pool.Body.String(), hasFill) != (url != "") {
			t.Errorf("%q: the pool: %d %s", url, pool.Code, pool.Body)
		}
	}
}
