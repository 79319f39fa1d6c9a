// A C++ program on the installed header: its types, initialisers and calls.
#include <holdfast/holdfast.h>

#include <cstdio>
#include <memory>
#include <string>

namespace
{
struct ClientFree {
    void operator()(hf_client *client) const { hf_client_free(client); }
};
using Client = std::unique_ptr<hf_client, ClientFree>;
} // namespace

int main()
{
    hf_error err = HF_ERROR_INIT;
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    hf_acquire_options acquire = HF_ACQUIRE_OPTIONS_INIT;
    hf_embedded_info embedded = HF_EMBEDDED_INFO_INIT;
    options.connect_timeout_ms = 100;
    acquire.wait_ms = HF_WAIT_FOREVER;
    if (options.struct_size != sizeof options ||
        acquire.struct_size != sizeof acquire ||
        embedded.struct_size != sizeof embedded) {
        std::fprintf(stderr, "an initialiser does not set struct_size\n");
        return 1;
    }
    Client client(hf_client_open("gopher://nowhere", &options, &err));
    if (client != nullptr || hf_error_status(&err) != HF_ECONFIG) {
        std::fprintf(stderr, "an unknown scheme: %s\n", hf_error_text(&err));
        return 1;
    }
    return std::string(hf_version()) == HF_VERSION_STRING ? 0 : 1;
}
