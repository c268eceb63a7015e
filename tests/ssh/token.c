/* A FIDO token without the token: it signs with ed25519 keys that lie in their key handles, touched by itself.
 * The interface is that of ssh's SecurityKeyProvider (OpenSSH's PROTOCOL.u2f and sk-api, version 10). */
#include <openssl/evp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define KEY 32
#define SIGNATURE 64
#define TOUCHED 1
#define FAILED -1

struct option;

struct enrolled {
    uint8_t flags;
    uint8_t *public_key;
    size_t public_key_len;
    uint8_t *key_handle;
    size_t key_handle_len;
    uint8_t *signature;
    size_t signature_len;
    uint8_t *certificate;
    size_t certificate_len;
    uint8_t *authdata;
    size_t authdata_len;
};

struct signed_ {
    uint8_t flags;
    uint32_t counter;
    uint8_t *r;
    size_t r_len;
    uint8_t *s;
    size_t s_len;
};

uint32_t sk_api_version(void) { return VERSION; }

int sk_load_resident_keys(const char *pin, struct option **options, void ***keys, size_t *count) { return FAILED; }

int sk_enroll(uint32_t kind, const uint8_t *challenge, size_t challenge_len, const char *application,
              uint8_t flags, const char *pin, struct option **options, struct enrolled **enrolled) {
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    struct enrolled *made = calloc(1, sizeof *made);
    if (!key || !made)
        return FAILED;
    made->public_key_len = made->key_handle_len = KEY;
    made->public_key = malloc(KEY);
    made->key_handle = malloc(KEY);
    made->signature = calloc(1, made->signature_len = SIGNATURE);
    made->certificate = calloc(1, made->certificate_len = 1);
    made->authdata = calloc(1, made->authdata_len = 1);
    if (!EVP_PKEY_get_raw_public_key(key, made->public_key, &made->public_key_len) ||
        !EVP_PKEY_get_raw_private_key(key, made->key_handle, &made->key_handle_len))
        return FAILED;
    EVP_PKEY_free(key);
    *enrolled = made;
    return 0;
}

int sk_sign(uint32_t kind, const uint8_t *data, size_t data_len, const char *application,
            const uint8_t *key_handle, size_t key_handle_len, uint8_t flags, const char *pin,
            struct option **options, struct signed_ **answer) {
    uint8_t message[32 + 1 + 4 + 32] = {0};
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, key_handle, key_handle_len);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    struct signed_ *made = calloc(1, sizeof *made);
    if (!key || !context || !made)
        return FAILED;
    made->flags = message[32] = TOUCHED;
    made->counter = message[36] = 1;
    made->r = malloc(made->r_len = SIGNATURE);
    if (!EVP_Digest(application, strlen(application), message, NULL, EVP_sha256(), NULL) ||
        !EVP_Digest(data, data_len, message + 37, NULL, EVP_sha256(), NULL) ||
        !EVP_DigestSignInit(context, NULL, NULL, NULL, key) ||
        !EVP_DigestSign(context, made->r, &made->r_len, message, sizeof message))
        return FAILED;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    *answer = made;
    return 0;
}
