// One campaign.

import { showCampaign } from "./campaign-page.js";

export async function show(root, { params, signal }) {
  await showCampaign(root, params.id, signal);
}
