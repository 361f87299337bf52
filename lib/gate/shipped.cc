// The lists that come with sandboxkit, as data. Source: design of the permission gate, 4.2.

#include "sandboxkit/gate_policy.h"

#include "gate/operations.h"

#include <iterator>
#include <string>
#include <string_view>

namespace sandboxkit {
namespace {

constexpr const char* kSource = "shipped";

constexpr std::string_view kEnvFiles = ".env.*";
constexpr std::string_view kCertificates = "*.pem";

// Hidden: every operation is denied.
constexpr std::string_view kHidden[] = {
    // Keys and logins of the user.
    "~/.ssh",
    "~/.gnupg",
    "~/.aws",
    "~/.azure",
    "~/.config/gcloud",
    "~/.config/gh",
    "~/.config/hub",
    "~/.config/op",
    "~/.config/1Password",
    "~/.kube",
    "~/.docker/config.json",
    "~/.netrc",
    "~/.git-credentials",
    "~/.config/git/credentials",
    "~/.npmrc",
    "~/.yarnrc*",
    "~/.pypirc",
    "~/.cargo/credentials*",
    "~/.gem/credentials",
    "~/.m2/settings*.xml",
    "~/.gradle/gradle.properties",
    "~/.terraform.d/credentials.tfrc.json",
    "~/.vault-token",
    "~/.password-store",
    "~/*.kdbx",
    "~/.local/share/keyrings",
    "~/.local/share/kwalletd",
    "~/.*_history",
    // Browsers and mail.
    "~/.mozilla",
    "~/.thunderbird",
    "~/.config/google-chrome",
    "~/.config/chromium",
    "~/.config/BraveSoftware",
    "~/.config/microsoft-edge",
    "~/.config/evolution",
    "~/.local/share/evolution",
    "~/snap/firefox",
    "~/snap/chromium",
    "~/.var/app/org.mozilla.firefox",
    "~/Library/Keychains",
    "~/Library/Cookies",
    "~/Library/Mail",
    "~/Library/Messages",
    // Logins of other agents.
    "~/.claude.json",
    "~/.claude/.credentials.json",
    "~/.config/claude",
    "~/.codex/auth.json",
    "~/.config/codex",
    "~/.gemini/oauth_creds.json",
    "~/.config/goose",
    "~/.local/share/opencode/auth.json",
    // The machine's.
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh/*key",
    "/run/secrets",
    "/var/run/secrets",
    // By name, wherever they lie.
    ".env",
    kEnvFiles,
    kCertificates,
    "*.key",
    "*.p12",
    "*.pfx",
    "id_rsa*",
    "id_ed25519*",
    "id_ecdsa*",
};

// Examples of secrets are none: they lift `.env.*` alone.
constexpr std::string_view kNoSecrets[] = {
    "/**/.env.example",
    "/**/.env.sample",
    "/**/.env.template",
    "/**/.env.dist",
};

// Certificates of public authorities are none either: they lift `*.pem` alone, for reading.
constexpr std::string_view kPublicPlaces[] = {"/usr", "/etc/ssl/certs", "/etc/pki"};

// What runs later, with the user's rights: no change.
constexpr std::string_view kRunsLater[] = {
    // git: hooks, and every file that names a program or another place.
    "/**/.git/hooks",
    "/**/.git/config",
    "/**/.git/config.worktree",
    "/**/.git/info/attributes",
    "/**/.git/commondir",
    "/**/.git/gitdir",
    "/**/.git/modules/**/hooks",
    "/**/.git/modules/**/config",
    "/**/.git/modules/**/config.worktree",
    "/**/.git/modules/**/commondir",
    "/**/.git/modules/**/gitdir",
    "/**/.git/worktrees/**/hooks",
    "/**/.git/worktrees/**/config",
    "/**/.git/worktrees/**/config.worktree",
    "/**/.git/worktrees/**/commondir",
    "/**/.git/worktrees/**/gitdir",
    ".gitmodules",
    ".gitconfig",
    "/**/.hg/hgrc",
    // Shells read them when they start.
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".xprofile",
    ".xinitrc",
    // Tools read them in a project's folder.
    ".envrc",
    ".ripgreprc",
    ".npmrc",
    ".yarnrc*",
    ".pypirc",
    "pip.conf",
    "/**/.cargo/config*",
    ".mcp.json",
    "opencode.json",
    ".aider.conf.yml",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    // Editors and agents.
    ".vscode",
    ".idea",
    ".cursor",
    ".zed",
    ".devcontainer",
    ".husky",
    ".claude",
    ".codex",
    ".agents",
    ".gemini",
    ".goose",
    ".continue",
    ".opencode",
    ".sandboxkit",
    // The session and the machine start them.
    "~/.config/autostart",
    "~/.config/systemd",
    "~/.config/environment.d",
    "~/.config/fish",
    "~/.config/git",
    "~/Library/LaunchAgents",
    "~/.local/bin",
    "/etc/cron*",
    "/var/spool/cron",
};

// Reviewed by people before they count: changes are asked for.
constexpr std::string_view kExclusions[] = {
    "/**/.github/workflows", "/**/.gitlab-ci.yml", "/**/Jenkinsfile",
    "/**/.circleci",         "/**/AGENTS.md",      "/**/CLAUDE.md",
    "/**/GEMINI.md",         "/**/.cursorrules",   "/**/.goosehints",
};

constexpr std::string_view kDeniedVariables[] = {
    "*TOKEN*",      "*SECRET*",      "*PASSWORD*", "*_KEY",       "*CREDENTIAL*", "*_DSN",
    "DATABASE_URL", "SSH_AUTH_SOCK", "DBUS_*",     "DOCKER_HOST", "KUBECONFIG",   "GPG_AGENT_INFO",
};

constexpr std::string_view kAllowedVariables[] = {
    "LANG",     "LANGUAGE",   "LC_*", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR",
    "CLICOLOR", "CLICOLOR_*", "TZ",   "USER", "LOGNAME",   "SHELL",    "CI",
};

template <std::size_t N>
void add(std::vector<GateRule>& rules, const std::string_view (&patterns)[N],
         const std::set<GateOperation>& operations) {
  for (const std::string_view pattern : patterns) {
    rules.push_back(GateRule{std::string(pattern), operations, kSource});
  }
}

}  // namespace

GatePolicy GatePolicy::shipped() {
  GatePolicy policy;
  add(policy.denials, kHidden, gate::every_operation());
  add(policy.denials, kRunsLater, gate::changing_operations());
  // As a directory it is a repository; as a file or a link it points to one, wherever that is.
  policy.denials.push_back(GateRule{".git", gate::changing_operations(), kSource,
                                    /*spares_directories=*/true});
  for (const std::string_view pattern : kNoSecrets) {
    policy.exceptions.push_back(GateException{std::string(pattern), gate::every_operation(),
                                              kSource, std::string(kEnvFiles)});
  }
  for (const std::string_view place : kPublicPlaces) {
    policy.exceptions.push_back(
        GateException{std::string(place),
                      {GateOperation::kRead, GateOperation::kList, GateOperation::kStat},
                      kSource,
                      std::string(kCertificates)});
  }
  add(policy.exclusions, kExclusions, gate::changing_operations());
  policy.denied_variables.assign(std::begin(kDeniedVariables), std::end(kDeniedVariables));
  policy.allowed_variables.assign(std::begin(kAllowedVariables), std::end(kAllowedVariables));
  return policy;
}

}  // namespace sandboxkit
