package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// owner is the user and the group of the pods' processes and volumes: runAsUser and fsGroup in the manifest.
	owner = 1000
	// tokenSeconds is how long the token of a service account is valid. It outlives the test.
	tokenSeconds = 3600
)

// provision gives each claim that has no volume a directory, as the provisioner of a storage class does.
func (n *nodes) provision(ctx context.Context) error {
	claims, err := n.plane.client.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, claim := range claims.Items {
		if claim.Spec.VolumeName != "" {
			continue
		}
		name := "volume-" + string(claim.UID)
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", Namespace: namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: n.plane.file(name)}},
		}}
		_, err := n.plane.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// claimed returns the directory of a claim. All nodes have it, as a volume of the network.
func (n *nodes) claimed(ctx context.Context, claimName string) (string, error) {
	claim, err := n.plane.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, claimName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if claim.Spec.VolumeName == "" {
		return "", fmt.Errorf("the claim %s has no volume yet", claimName)
	}
	dir := n.plane.file(claim.Spec.VolumeName)
	if err := os.MkdirAll(dir, 0o770); err != nil {
		return "", err
	}
	return dir, os.Chown(dir, owner, owner)
}

// writeFiles writes the files of Secrets, ConfigMaps and the service account, as they are now, into the root of the pod.
func (p *pod) writeFiles(ctx context.Context) error {
	for _, m := range p.Spec.Containers[0].VolumeMounts {
		volume := p.volume(m.Name)
		if volume.PersistentVolumeClaim != nil {
			continue
		}
		files, err := p.files(ctx, volume)
		if err != nil {
			return fmt.Errorf("volume %s: %w", m.Name, err)
		}
		if err := publishFiles(filepath.Join(p.root, m.MountPath), files); err != nil {
			return err
		}
	}
	return nil
}

// files returns the files of a volume by name.
func (p *pod) files(ctx context.Context, volume corev1.Volume) (map[string]string, error) {
	core := p.nodes.plane.client.CoreV1()
	switch {
	case volume.ConfigMap != nil:
		object, err := core.ConfigMaps(namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return selectFiles(object.Data, volume.ConfigMap.Items)
	case volume.Secret != nil:
		object, err := core.Secrets(namespace).Get(ctx, volume.Secret.SecretName, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		all := map[string]string{}
		for name, text := range object.Data {
			all[name] = string(text)
		}
		return selectFiles(all, volume.Secret.Items)
	case volume.Projected != nil:
		return p.accountFiles(ctx)
	}
	return nil, fmt.Errorf("these nodes have no volume of its kind")
}

// selectFiles returns the files that a volume lists, under their names there, or all if it lists none.
func selectFiles(all map[string]string, items []corev1.KeyToPath) (map[string]string, error) {
	if len(items) == 0 {
		return all, nil
	}
	files := map[string]string{}
	for _, item := range items {
		text, found := all[item.Key]
		if !found {
			return nil, fmt.Errorf("no key %s", item.Key)
		}
		files[item.Path] = text
	}
	return files, nil
}

// accountFiles returns the files that the API adds to a pod with a service account: its token, the API's authority, its namespace. The
// token stays the same, because it outlives the test.
func (p *pod) accountFiles(ctx context.Context) (map[string]string, error) {
	core := p.nodes.plane.client.CoreV1()
	authority, err := core.ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if p.token == "" {
		seconds := int64(tokenSeconds)
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: &seconds,
			BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: p.Name, UID: p.UID},
		}}
		answer, err := core.ServiceAccounts(namespace).CreateToken(ctx, p.Spec.ServiceAccountName, request, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		p.token = answer.Status.Token
	}
	return map[string]string{"token": p.token, "ca.crt": authority.Data["ca.crt"], "namespace": namespace}, nil
}

// publishFiles replaces the files in a directory at once, if one of them has changed, as the kubelet does: each name is a link to a file in
// the directory that the link ..data names.
func publishFiles(dir string, files map[string]string) error {
	data := filepath.Join(dir, "..data")
	if isPublished(data, files) {
		return nil
	}
	fresh, err := os.MkdirTemp(dir, "..")
	if err != nil {
		return err
	}
	if err := os.Chmod(fresh, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := writeOwned(filepath.Join(fresh, name), text); err != nil {
			return err
		}
		link := filepath.Join(dir, name)
		if _, err := os.Lstat(link); err == nil {
			continue
		}
		if err := os.Symlink(filepath.Join("..data", name), link); err != nil {
			return err
		}
	}
	old, _ := os.Readlink(data) // none at first
	if err := os.Symlink(filepath.Base(fresh), data+".new"); err != nil {
		return err
	}
	if err := os.Rename(data+".new", data); err != nil || old == "" {
		return err
	}
	return os.RemoveAll(filepath.Join(dir, old))
}

// isPublished reports whether a directory has exactly these files.
func isPublished(dir string, files map[string]string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	var found []string
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil || string(text) != files[e.Name()] {
			return false
		}
		found = append(found, e.Name())
	}
	return slices.Equal(found, slices.SortedFunc(maps.Keys(files), strings.Compare))
}

func writeOwned(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o440); err != nil {
		return err
	}
	return os.Chown(path, owner, owner)
}
