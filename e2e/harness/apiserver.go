package harness

import (
	"context"
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// AnotherAPI starts a second API server on the same etcd, whose clock is ahead, and returns the admin's configuration
// for it. It runs until the test ends.
func (c *ControlPlane) AnotherAPI(t testing.TB, ahead time.Duration) *rest.Config {
	t.Helper()
	port := c.port + 1
	flags, err := c.apiServerFlags(port)
	if err != nil {
		t.Fatal(err)
	}
	another, err := startProcess(c.apiServer, c.home.dir, "kube-apiserver", "-2", flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(another.kill)
	c.disturbed = true
	if err := shiftClock(another.cmd.Process.Pid, ahead); err != nil {
		t.Fatalf("putting the clock of an API server forward by %s: %v", ahead, err)
	}
	config := c.Config()
	config.Host = c.url("https", port)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), readyTimeout)
	defer cancel()
	if err := waitAnswers(ctx, client, another); err != nil {
		t.Fatal(err)
	}
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := web.Get(config.Host + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if off := time.Until(date) - ahead; err != nil || off.Abs() > 20*time.Second {
		t.Fatalf("the API server is %s ahead, want %s: %v", time.Until(date), ahead, err)
	}
	return config
}
