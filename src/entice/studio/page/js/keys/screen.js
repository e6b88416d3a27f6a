// API keys: listed, created and revoked by administrators.

import { get, getPage, send, studioInfo } from "../api.js";
import { useKey } from "../api-key.js";
import { confirmDialog } from "../dialog.js";
import { h, replace, unique } from "../dom.js";
import { defined } from "../glossary.js";
import { screenHead } from "../layout.js";
import { managesKeys, readOnlyNotice } from "../permissions.js";
import { empty, loading } from "../placeholders.js";
import { scrollableTable } from "../scrollable-table.js";

const ROLES = {
  read: "See campaigns, offers and exports, and run simulations. Changes nothing.",
  decide: "Make offers. For the program that shows items to visitors.",
  feedback: "Accept, decline and rate offers. For the program that receives ratings.",
  admin: "Everything, also create campaigns and, for all campaigns, keys.",
};
const FIRST =
  "Other tabs and the address that the service printed stop working: the first key replaces that " +
  "address. So it must be an admin key for all campaigns. This tab then uses it.";
const MOST_LISTED = 100; // campaigns in the choice

export async function show(root, { signal }) {
  const info = await studioInfo();
  replace(root, header(null), loading("Loading keys …"));
  if (!managesKeys(info)) {
    const notice = (await readOnlyNotice("see keys")) ?? limitedNotice();
    return void replace(root, header(null), h("div.card", notice));
  }

  async function refresh() {
    const [keys, campaigns] = await Promise.all([
      get("/v1/keys", { signal }),
      getPage(`/v1/campaigns?limit=${MOST_LISTED}&sort=name`, { signal }),
    ]);
    const names = new Map(campaigns.items.map(({ id, name }) => [id, name]));
    const create = h("button.primary", { type: "button" }, "Create a key …");
    create.addEventListener("click", async () => {
      if (await createKey(names, keys.length === 0)) await refresh();
    });
    const used = keys.filter((key) => key.revoked_at === null);
    const revoked = keys.filter((key) => key.revoked_at !== null);
    replace(
      root,
      header(create),
      keys.length === 0 ? noKeys() : keyTable("Keys", used, names, refresh),
      revoked.length > 0 &&
        h(
          "details.revoked",
          h("summary", `Revoked keys (${revoked.length})`),
          keyTable("Revoked keys", revoked, names, null),
        ),
    );
  }

  await refresh();
}

function header(action) {
  const lead = [
    "Programs and people use the service with a ",
    defined("key", "key"),
    ". Give each its own, with the ",
    defined("role", "roles"),
    " that it needs, so that you can revoke one without the others.",
  ];
  return screenHead("Keys", lead, action);
}

function limitedNotice() {
  const text = "Your key is limited to one campaign. Keys need an admin key for all campaigns.";
  return h("p", text);
}

function noKeys() {
  const text =
    "This service accepts the address that it printed when it started, from this machine only. " +
    "The first key replaces that address, so it must have the role admin for all campaigns.";
  return h("div.card", empty("No keys yet", text));
}

function keyTable(label, keys, names, refresh) {
  const admins = keys.filter(isAdministrator);
  const titles = ["Name", "Roles", "Campaigns", "Created", refresh ? "" : "Revoked"];
  const table = h(
    "table.key-table",
    h("caption.visually-hidden", label),
    h(
      "thead",
      h("tr", titles.map((title) => (title ? h("th", { scope: "col" }, title) : h("td")))),
    ),
    h(
      "tbody",
      keys.map((key) => {
        const isLast = admins.length === 1 && admins[0] === key;
        const action = refresh ? revokeCell(key, isLast, refresh) : date(key.revoked_at);
        return keyRow(key, names, action);
      }),
    ),
  );
  return h("div.card.keys", scrollableTable(label, table));
}

function keyRow(key, names, action) {
  const scope =
    key.campaign === null
      ? "All"
      : h("a", { href: `#/campaign/${key.campaign}` }, names.get(key.campaign) ?? key.campaign);
  const altered =
    "Its stored data was changed, so the service rejects it. Revoke it, and run entice verify.";
  return h(
    "tr",
    { dataset: { id: key.id } },
    h(
      "th",
      { scope: "row" },
      h("span.key-name", key.name),
      key.current && h("span.badge.badge-accent", "This tab"),
      key.altered && h("span.badge.badge-bad", { title: altered }, "Altered"),
      h("code", key.id),
    ),
    h("td", { dataset: { label: "Roles" } }, roleBadges(key.roles)),
    h("td", { dataset: { label: "Campaigns" } }, scope),
    h("td", { dataset: { label: "Created" } }, date(key.created_at)),
    h("td.key-action", action),
  );
}

function roleBadges(roles) {
  return h("span.alert-badges", roles.map((role) => h("span.badge", { title: ROLES[role] }, role)));
}

function revokeCell(key, isLast, refresh) {
  if (isLast) {
    const text = "Last admin key: create another one before you revoke it.";
    return h("span.note.key-last", text);
  }
  const click = async () => {
    const confirmed = h("input", { type: "checkbox", id: unique("own"), required: true });
    const warning =
      "You are using this key in this tab. Once it is revoked, this page asks for another one.";
    const label = h("label", { for: confirmed.id }, "I have another key");
    const own = [h("p.dialog-problem", warning), h("p.check", confirmed, label)];
    const gone = await confirmDialog({
      title: `Revoke “${key.name}”?`,
      body: [
        h("p", "Requests with this key are rejected within a second. This cannot be undone."),
        key.current && own,
      ],
      confirm: "Revoke",
      danger: true,
      action: () => send("DELETE", `/v1/keys/${key.id}`),
    });
    if (gone) await refresh();
  };
  const label = `Revoke ${key.name}`;
  const props = { type: "button", class: "small danger", "aria-label": label, on: { click } };
  return h("button", props, "Revoke …");
}

/** Let the user create a key, and show it once. Resolves to whether one was created. */
async function createKey(names, isFirst) {
  const text = { type: "text", required: true, maxlength: 200, autocomplete: "off" };
  const name = h("input", { ...text, id: unique("key") });
  const boxes = Object.keys(ROLES).map((role) => {
    const checked = isFirst ? role === "admin" : role === "read";
    const box = { type: "checkbox", value: role, checked, disabled: isFirst };
    return h("input", { ...box, id: unique("role") });
  });
  const scope = scopeField(names, isFirst);
  const body = [
    isFirst && h("p.dialog-problem", FIRST),
    h("label", { for: name.id }, "Name"),
    name,
    h("p.note", "Who or what uses the key, such as “Shop” or “Ann”."),
    h(
      "fieldset.roles",
      h("legend", "Roles"),
      boxes.map((box) =>
        h("p.check", box, h("label", { for: box.id }, box.value, h("span.note", ROLES[box.value]))),
      ),
    ),
    h("label", { for: scope.id }, "Campaigns"),
    scope,
  ];
  const made = await confirmDialog({
    title: "Create a key",
    body,
    confirm: "Create",
    action: async () => {
      const roles = boxes.filter((box) => box.checked).map((box) => box.value);
      if (roles.length === 0) throw new Error("Choose at least one role.");
      const campaign = scope.value.trim() || null;
      return send("POST", "/v1/keys", { name: name.value.trim(), roles, campaign });
    },
  });
  if (!made) return false;
  if (isFirst) useKey(made.key);
  await showNewKey(made, isFirst);
  return true;
}

/** A choice of campaigns or, if there are many, a field for the id of one. */
function scopeField(names, disabled) {
  const id = unique("scope");
  if (names.size === MOST_LISTED)
    return h("input", { type: "text", id, disabled, placeholder: "All, or the id of one: c_…" });
  return h(
    "select",
    { id, disabled },
    h("option", { value: "" }, "All campaigns"),
    [...names].map(([value, text]) => h("option", { value }, `${text} (${value})`)),
  );
}

function showNewKey({ name, key }, isFirst) {
  const shown = { readonly: true, rows: 2, spellcheck: "false", class: "new-key" };
  const field = h("textarea", { ...shown, id: unique("new-key") });
  field.value = key;
  const status = h("span.note", { role: "status" });
  let isCopied = false;
  field.addEventListener("copy", () => {
    isCopied = true;
  });
  const click = async () => {
    field.select();
    try {
      await navigator.clipboard.writeText(key);
    } catch {
      return void replace(status, "Copy the selected text."); // the browser does not permit it
    }
    replace(status, "Copied.");
    field.dispatchEvent(new Event("copy", { bubbles: true })); // as if it was copied by hand
  };
  const props = { type: "button", class: "primary", autofocus: true, on: { click } };
  const copy = h("button", props, "Copy");
  const stored = h("input", { type: "checkbox", id: unique("stored") });
  const text = isFirst ? " This tab uses it from now on." : "";
  return confirmDialog({
    title: `The key “${name}”`,
    body: [
      h("p", `Copy it now: it is not shown again.${text}`),
      h("label", { for: field.id }, "Key"),
      field,
      h("div.actions.copy", copy, status),
      h("p.check", stored, h("label", { for: stored.id }, "I have stored it")),
    ],
    confirm: "Done",
    cancel: null,
    mayClose: () => isCopied || stored.checked,
    action: async () => true,
  });
}

function isAdministrator(key) {
  return key.roles.includes("admin") && key.campaign === null && !key.altered;
}

function date(text) {
  const day = { dateStyle: "medium", timeStyle: "short" };
  return new Date(text).toLocaleString("en-GB", day);
}
