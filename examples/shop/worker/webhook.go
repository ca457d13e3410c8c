package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"shop/worker/queue"
)

var client = &http.Client{Timeout: 10 * time.Second}

// deliver posts one event to its subscriber. The signature lets the receiver check that it came from us.
func deliver(ctx context.Context, event queue.Event) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, event.URL, bytes.NewReader(event.Body))
	if err != nil {
		return err
	}
	request.Header.Set("X-Shop-Signature", sign(event.Body, event.Secret))
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		return fmt.Errorf("subscriber answered %s", response.Status)
	}
	return nil
}

func sign(body, secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
