# The bucket, and in us-east-1 the export of CUR 2.0 by hour and resource with split cost allocation.
locals {
  makes_export = var.export && local.region == "us-east-1" && var.billing == null
  columns = [
    # the columns: made by `make docs`, do not edit
    "bill_billing_period_start_date",
    "bill_invoice_id",
    "bill_payer_account_id",
    "bill_payer_account_name",
    "capacity_reservation_capacity_reservation_arn",
    "capacity_reservation_capacity_reservation_type",
    "discount",
    "discount_total_discount",
    "line_item_availability_zone",
    "line_item_currency_code",
    "line_item_line_item_description",
    "line_item_line_item_type",
    "line_item_net_unblended_cost",
    "line_item_operation",
    "line_item_product_code",
    "line_item_resource_id",
    "line_item_unblended_cost",
    "line_item_usage_account_id",
    "line_item_usage_account_name",
    "line_item_usage_amount",
    "line_item_usage_end_date",
    "line_item_usage_start_date",
    "line_item_usage_type",
    "pricing_term",
    "pricing_unit",
    "product",
    "product_instance_type",
    "product_region_code",
    "product_servicecode",
    "reservation_effective_cost",
    "reservation_end_time",
    "reservation_net_effective_cost",
    "reservation_net_unused_amortized_upfront_fee_for_billing_period",
    "reservation_net_unused_recurring_fee",
    "reservation_reservation_a_r_n",
    "reservation_unused_amortized_upfront_fee_for_billing_period",
    "reservation_unused_recurring_fee",
    "resource_tags",
    "savings_plan_amortized_upfront_commitment_for_billing_period",
    "savings_plan_end_time",
    "savings_plan_net_amortized_upfront_commitment_for_billing_period",
    "savings_plan_net_recurring_commitment_for_billing_period",
    "savings_plan_net_savings_plan_effective_cost",
    "savings_plan_recurring_commitment_for_billing_period",
    "savings_plan_savings_plan_a_r_n",
    "savings_plan_savings_plan_effective_cost",
    "savings_plan_total_commitment_to_date",
    "savings_plan_used_commitment",
    "split_line_item_parent_resource_id",
    "split_line_item_split_cost",
    "split_line_item_split_usage_ratio",
    "split_line_item_unused_cost",
    # end of the columns
  ]
}

resource "aws_s3_bucket" "trnbot" {
  bucket = "trnbot-${local.account}-${local.region}"
}

resource "aws_s3_bucket_public_access_block" "trnbot" {
  bucket                  = aws_s3_bucket.trnbot.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_lifecycle_configuration" "trnbot" {
  bucket = aws_s3_bucket.trnbot.id

  rule {
    id     = "streamed metrics are read within hours"
    status = "Enabled"
    filter {
      prefix = "metrics/"
    }
    expiration {
      days = 7
    }
  }

  rule {
    id     = "uploads that broke off"
    status = "Enabled"
    filter {}
    abort_incomplete_multipart_upload {
      days_after_initiation = 2
    }
  }
}

resource "aws_s3_bucket_policy" "trnbot" {
  bucket = aws_s3_bucket.trnbot.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "DataExportsWriteAndSeeThisPolicy"
        Effect    = "Allow"
        Principal = { Service = ["bcm-data-exports.amazonaws.com", "billingreports.amazonaws.com"] }
        Action    = ["s3:PutObject", "s3:GetBucketPolicy"]
        Resource  = [aws_s3_bucket.trnbot.arn, "${aws_s3_bucket.trnbot.arn}/*"]
        Condition = {
          StringEquals = { "aws:SourceAccount" = local.account }
          ArnLike = {
            "aws:SourceArn" = [
              "arn:${local.partition}:bcm-data-exports:us-east-1:${local.account}:export/*",
              "arn:${local.partition}:cur:us-east-1:${local.account}:definition/*",
            ]
          }
        }
      },
      {
        Sid       = "NothingUnencrypted"
        Effect    = "Deny"
        Principal = "*"
        Action    = "s3:*"
        Resource  = [aws_s3_bucket.trnbot.arn, "${aws_s3_bucket.trnbot.arn}/*"]
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
    ]
  })
}

resource "aws_bcmdataexports_export" "bill" {
  count      = local.makes_export ? 1 : 0
  depends_on = [aws_s3_bucket_policy.trnbot]

  export {
    name = "trnbot"
    data_query {
      query_statement = "SELECT ${join(", ", local.columns)} FROM COST_AND_USAGE_REPORT"
      table_configurations = {
        COST_AND_USAGE_REPORT = {
          BILLING_VIEW_ARN                      = "arn:${local.partition}:billing::${local.account}:billingview/primary"
          TIME_GRANULARITY                      = "HOURLY"
          INCLUDE_RESOURCES                     = "TRUE"
          INCLUDE_SPLIT_COST_ALLOCATION_DATA    = "TRUE"
          INCLUDE_CAPACITY_RESERVATION_DATA     = "TRUE"
          INCLUDE_MANUAL_DISCOUNT_COMPATIBILITY = "FALSE"
        }
      }
    }
    destination_configurations {
      s3_destination {
        s3_bucket = aws_s3_bucket.trnbot.bucket
        s3_prefix = "bill"
        s3_region = local.region
        s3_output_configurations {
          output_type = "CUSTOM"
          format      = "PARQUET"
          compression = "PARQUET"
          overwrite   = "OVERWRITE_REPORT"
        }
      }
    }
    refresh_cadence {
      frequency = "SYNCHRONOUS"
    }
  }
  lifecycle {
    # AWS answers with properties that nobody set, and adds some; the provider takes each for a change.
    ignore_changes = [export[0].data_query[0].table_configurations]
  }
}
