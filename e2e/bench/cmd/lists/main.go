// Command lists makes the LISTs that any look at a cluster has to make: reservations,
// pools and pods, one after the other and in pages, as the product does. It throws
// away what it gets.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	protobuf = "application/vnd.kubernetes.protobuf"
	theirs   = "/apis/whereabouts.cni.cncf.io/v1alpha1/"
)

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
	for _, list := range []struct {
		path, accept string
		next         func([]byte) (string, error)
	}{
		{theirs + "overlappingrangeipreservations", "application/json", continueOfJSON},
		{theirs + "ippools", "application/json", continueOfJSON},
		{"/api/v1/pods", protobuf, continueOfProtobuf},
	} {
		for token := ""; ; {
			query := url.Values{"limit": {strconv.FormatInt(page, 10)}}
			if token != "" {
				query.Set("continue", token)
			}
			body, err := get(client, config.Host+list.path+"?"+query.Encode(), list.accept)
			if err != nil {
				return err
			}
			if token, err = list.next(body); err != nil {
				return fmt.Errorf("reading the end of a page of %s: %w", list.path, err)
			}
			if token == "" {
				break
			}
		}
	}
	return nil
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

var continueField = regexp.MustCompile(`"continue":("[^"]*")`)

// continueOfJSON reads the token where the API server writes it: before the items, or
// of custom resources behind them.
func continueOfJSON(body []byte) (token string, err error) {
	const end = 4096
	found := continueField.FindSubmatch(body[:min(len(body), end)])
	if found == nil {
		found = continueField.FindSubmatch(body[max(0, len(body)-end):])
	}
	if found == nil {
		return "", nil
	}
	return token, json.Unmarshal(found[1], &token)
}

// continueOfProtobuf reads ListMeta.continue: field 3 of field 1 of the list, which is
// field 2 of the envelope behind four bytes.
func continueOfProtobuf(body []byte) (string, error) {
	if len(body) < 4 {
		return "", fmt.Errorf("it has %d bytes", len(body))
	}
	list, err := field(body[4:], 2)
	if err != nil {
		return "", err
	}
	meta, err := field(list, 1)
	if err != nil {
		return "", err
	}
	token, err := field(meta, 3)
	return string(token), err
}

// field is the first field of bytes with this number, nil if there is none.
func field(message []byte, number protowire.Number) ([]byte, error) {
	for len(message) > 0 {
		n, kind, length := protowire.ConsumeTag(message)
		if length < 0 {
			return nil, protowire.ParseError(length)
		}
		message = message[length:]
		if n == number && kind == protowire.BytesType {
			value, length := protowire.ConsumeBytes(message)
			return value, protowire.ParseError(length)
		}
		if length = protowire.ConsumeFieldValue(n, kind, message); length < 0 {
			return nil, protowire.ParseError(length)
		}
		message = message[length:]
	}
	return nil, nil
}
