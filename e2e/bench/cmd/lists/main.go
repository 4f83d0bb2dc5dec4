// Command lists makes the LISTs that every judgement needs: reservations, pools and pods, one after the other and in
// pages, as the product does. It discards the answers.
package main

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const theirs = "/apis/whereabouts.cni.cncf.io/v1alpha1/"

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the cluster")
	plain := flag.Bool("plain", false, "ask for answers that are not compressed")
	page := flag.Int64("page", 500, "objects a page")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err == nil {
		config.QPS, config.DisableCompression = -1, *plain
		err = bare(config, *page)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lists:", err)
		os.Exit(1)
	}
}

func bare(config *rest.Config, page int64) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	for _, list := range []struct{ path, accept string }{
		{theirs + "overlappingrangeipreservations", "application/json"},
		{theirs + "ippools", "application/json"},
		{"/api/v1/pods", "application/vnd.kubernetes.protobuf"},
	} {
		query := url.Values{"limit": {strconv.FormatInt(page, 10)}}
		for more := true; more; more = query.Get("continue") != "" {
			body, err := get(client, config.Host+list.path+"?"+query.Encode(), list.accept)
			if err != nil {
				return err
			}
			query.Set("continue", next(body))
		}
	}
	return nil
}

// continued is how the token begins that the API server writes for the next page: {"v":"meta.k8s.io/v1" in base64.
var continued = regexp.MustCompile(`eyJ2IjoibWV0YS5rOHMuaW8vdjEi[A-Za-z0-9_-]*`)

// next is the token for the next page, "" after the last one. It precedes the items, or follows those of custom
// resources: decoding what is between would cost more than the LIST.
func next(body []byte) string {
	const end = 4096
	if token := continued.Find(body[:min(len(body), end)]); token != nil {
		return string(token)
	}
	return string(continued.Find(body[max(0, len(body)-end):]))
}

func get(client *http.Client, address, accept string) ([]byte, error) {
	request, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", address, response.Status)
	}
	return body, err
}
